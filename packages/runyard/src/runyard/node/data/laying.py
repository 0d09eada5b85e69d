"""Files of local folders put together as the data of a run: by links, clones or copies."""

import fcntl
import shutil
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from runyard.errors import InvalidArgument

_FICLONE = 0x40049409
POINTED_AT_ABOVE_BYTES = 256 << 20


def lay_links(files: Iterable[tuple[str, Path]], root: Path) -> None:
    """A tree of links at `root`, made anew: each path below it leads to its file."""
    made = _emptied(root)
    for path, file in files:
        target = root / inside(path)
        _make_folder(target.parent, made)
        target.symlink_to(file)


def lay_copies(files: Iterable[tuple[str, Path]], root: Path) -> None:
    """The files at `root`, made anew and read-only, for where nothing can be mounted.

    They are clones where the file system can, else copies; a very large one is pointed at where it lies.
    """
    made = _emptied(root)
    for path, file in files:
        target = root / inside(path)
        _make_folder(target.parent, made)
        if file.stat().st_size > POINTED_AT_ABOVE_BYTES:
            target.symlink_to(file)
            continue
        if not _cloned(file, target):
            shutil.copyfile(file, target)
        target.chmod(0o444)


def inside(path: str) -> PurePosixPath:
    """A path of a dataset; InvalidArgument when it would leave the dataset's root."""
    parsed = PurePosixPath(path)
    if not parsed.parts or parsed.is_absolute() or ".." in parsed.parts or "\0" in path:
        raise InvalidArgument(f"The dataset holds {path!r}, which does not lie inside of it.")
    return parsed


def _emptied(root: Path) -> set[Path]:
    """Nothing that an interrupted try has left is taken for whole."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    return {root}


def _make_folder(folder: Path, made: set[Path]) -> None:
    if folder not in made:
        folder.mkdir(parents=True, exist_ok=True)
        made.add(folder)


def _cloned(source: Path, target: Path) -> bool:
    """A copy that shares its blocks, where the file system can; else an empty file is left."""
    with source.open("rb") as original, target.open("xb") as copy:
        try:
            fcntl.ioctl(copy.fileno(), _FICLONE, original.fileno())
        except OSError:
            return False
    return True
