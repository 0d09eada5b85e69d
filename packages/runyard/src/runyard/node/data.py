"""Data brought into a run: fetched or found, then laid out below the attempt's folder."""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from runyard.errors import DataFailed
from runyard.model.plan import DataItem
from runyard.node.data_cache import DataCache
from runyard.node.web import Web
from runyard.planning.data_layout import fixed_part, is_glob, path_in_dataset

__all__ = ["DataCache", "bring"]

FICLONE = 0x40049409
COPIED_BELOW_BYTES = 1024 * 1024
POINTED_AT_ABOVE_BYTES = 256 * 1024 * 1024
Say = Callable[[str], None]


def bring(item: DataItem, attempt_dir: Path, cache: DataCache, variables: Mapping[str, str], say: Say) -> Path:
    """Have the item at hand for the run; returns the absolute path that its arguments and variables get.

    Safe to repeat for the same attempt. Raises DataFailed naming what could not be had.
    """
    try:
        if "urls" in item.source:
            path = _bring_web(item, attempt_dir, cache, Web(variables), say)
        elif "files" in item.source:
            path = _bring_chosen(item, attempt_dir)
        else:
            path = _bring_reference(item, attempt_dir)
    except OSError as error:
        raise DataFailed(
            f"Data input {item.name!r} could not be brought into the run: {error}.", hint="Check the disk and the path."
        ) from error
    if _is_elsewhere(item):
        say(f"path_on_compute {item.path_on_compute!r} is not made here; arguments and variables name {path}.")
    return path


def _is_elsewhere(item: DataItem) -> bool:
    """Whether a folder outside of the run's is asked for: other runs, and their owner's files, may lie there."""
    return (item.path_on_compute or "").startswith("/")


def _bring_web(item: DataItem, attempt_dir: Path, cache: DataCache, web: Web, say: Say) -> Path:
    urls = _strings(item.source["urls"])
    root = _place(item, attempt_dir)
    for url in urls:
        with cache.file(url, web, say) as content:
            _lay(content, root / path_in_dataset(urls, url), item.mode)
    for gone in cache.trim():
        say(f"{gone} was dropped from the data cache to make room.")
    return root / path_in_dataset(urls, urls[0]) if len(urls) == 1 and item.mode == "mount" else root


def _bring_chosen(item: DataItem, attempt_dir: Path) -> Path:
    sources = [_strings(source) for source in _list(item.source["files"])]
    root = _place(item, attempt_dir)
    root.mkdir(parents=True, exist_ok=True)
    for store, folder, pattern in sources:
        above = Path(folder, fixed_part(pattern))
        files = list(_matching(Path(folder), pattern))
        if not files:
            raise DataFailed(
                f"Data input {item.name!r}: there is nothing at {pattern!r} in datastore {store!r}.",
                hint="Upload the files first, or correct the path of the dataset.",
            )
        start = Path(folder) if len(sources) > 1 else above.parent if above.is_file() else above
        prefix = store if len(sources) > 1 else ""
        for file in files:
            _lay(file, root / prefix / file.relative_to(start), item.mode)
    is_one_file = len(sources) == 1 and Path(sources[0][1], sources[0][2]).is_file()
    return root / Path(sources[0][2]).name if is_one_file and item.mode == "mount" else root


def _bring_reference(item: DataItem, attempt_dir: Path) -> Path:
    folder, path = Path(str(item.source["folder"])), str(item.source.get("path") or "")
    there = folder / path
    if item.mode == "download":
        if not there.exists():
            raise DataFailed(
                f"Data reference {item.name!r}: there is nothing at {path!r} in its datastore.", hint="Upload it first."
            )
        at = (
            attempt_dir
            / "work"
            / str(item.source.get("datastore") or item.name)
            / (item.path_on_compute or "").strip("/")
        )
        for file in [there] if there.is_file() else _files(there):
            _lay(file, at / file.relative_to(folder), item.mode)
        return at / path
    if item.mode == "upload" or not path or not there.exists():
        there.mkdir(parents=True, exist_ok=True)
    if item.path_on_compute and not _is_elsewhere(item):
        _point(attempt_dir, item.path_on_compute, there)
    return there


def _point(attempt_dir: Path, path_on_compute: str, there: Path) -> None:
    """Let a script that writes the path out find the data there too."""
    link = attempt_dir / "work" / path_on_compute
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.exists() and not link.is_symlink():
        link.symlink_to(there)


def _place(item: DataItem, attempt_dir: Path) -> Path:
    if item.path_on_compute and not _is_elsewhere(item):
        return attempt_dir / "work" / item.path_on_compute
    return attempt_dir / "data" / item.name


def _matching(folder: Path, pattern: str) -> Iterator[Path]:
    """Files below the datastore's folder that a path or glob names; a folder means all of its files."""
    for found in sorted(folder.glob(pattern)) if is_glob(pattern) else [folder / pattern]:
        if found.is_file():
            yield found
        elif found.is_dir() and not pattern.endswith("**"):
            yield from _files(found)
        elif found.is_dir():
            yield from (file for file in sorted(found.iterdir()) if file.is_file())


def _files(folder: Path) -> Iterator[Path]:
    for below, _, names in os.walk(folder):
        yield from (Path(below, name) for name in sorted(names))


def _lay(source: Path, target: Path, mode: str) -> None:
    """Put a file at its place: one's own to change after a download, read-only after a mount."""
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = target.with_name(f".{target.name[:200]}.part")
    beside.unlink(missing_ok=True)
    own = mode == "download"
    if not _cloned(source, beside) and (own or not _linked(source, beside)):
        shutil.copyfile(source, beside)
    if not beside.is_symlink() and beside.stat().st_nlink == 1:
        beside.chmod(0o644 if own else 0o444)
    os.replace(beside, target)


def _linked(source: Path, target: Path) -> bool:
    """A second name for a large file of the cache, which is read-only. Of a file that its owner may still write to
    only a very large one is not copied: it is pointed at where it lies."""
    stat = source.stat()
    if stat.st_mode & 0o222 and stat.st_size > POINTED_AT_ABOVE_BYTES:
        target.symlink_to(source)
        return True
    if stat.st_size < COPIED_BELOW_BYTES or stat.st_mode & 0o222:
        return False
    try:
        os.link(source, target)
    except OSError:
        return False
    return True


def _cloned(source: Path, target: Path) -> bool:
    """A copy that shares its blocks, where the file system can."""
    with source.open("rb") as original, target.open("xb") as copy:
        try:
            fcntl.ioctl(copy.fileno(), FICLONE, original.fileno())
        except OSError:
            cloned = False
        else:
            cloned = True
    if not cloned:
        target.unlink()
    return cloned


def _list(value: object) -> list[object]:
    assert isinstance(value, list | tuple)
    return list(value)


def _strings(value: object) -> list[str]:
    return [str(entry) for entry in _list(value)]
