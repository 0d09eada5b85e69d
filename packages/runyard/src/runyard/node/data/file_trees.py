"""Puts files of local folders together in one folder, as links, clones or copies."""

import fcntl
import shutil
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from runyard.core.errors import InvalidArgument

_FICLONE = 0x40049409
POINTED_AT_ABOVE_BYTES = 256 << 20


def link_files(files: Iterable[tuple[str, Path]], root: Path) -> None:
    """Recreate `root` as a tree of symbolic links to the files."""
    made = _emptied(root)
    for path, file in files:
        target = root / dataset_path(path)
        _make_folder(target.parent, made)
        target.symlink_to(file)


def copy_files(files: Iterable[tuple[str, Path]], root: Path) -> None:
    """Recreate `root` with read-only copies of the files, for where nothing can be mounted.

    They are clones (reflinks) where the file system has them, else copies; a very large file becomes a link.
    """
    made = _emptied(root)
    for path, file in files:
        target = root / dataset_path(path)
        _make_folder(target.parent, made)
        if file.stat().st_size > POINTED_AT_ABOVE_BYTES:
            target.symlink_to(file)
            continue
        if not _cloned(file, target):
            shutil.copyfile(file, target)
        target.chmod(0o444)


def dataset_path(path: str) -> PurePosixPath:
    """Parse a path of a dataset. InvalidArgument when it leads out of the dataset's root."""
    parsed = PurePosixPath(path)
    if not parsed.parts or parsed.is_absolute() or ".." in parsed.parts or "\0" in path:
        raise InvalidArgument(f"The dataset holds {path!r}, which does not lie inside of it.")
    return parsed


def _emptied(root: Path) -> set[Path]:
    """Recreate `root` empty: an interrupted try may have left truncated files."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    return {root}


def _make_folder(folder: Path, made: set[Path]) -> None:
    if folder not in made:
        folder.mkdir(parents=True, exist_ok=True)
        made.add(folder)


def _cloned(source: Path, target: Path) -> bool:
    """Clone a file, sharing its blocks. Returns False, with an empty target, where the file system cannot."""
    with source.open("rb") as original, target.open("xb") as copy:
        try:
            fcntl.ioctl(copy.fileno(), _FICLONE, original.fileno())
        except OSError:
            return False
    return True
