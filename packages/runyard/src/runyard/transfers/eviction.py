import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISLNK

_ABANDONED_SECONDS = 3600.0
_DISK_BLOCK = 4096


@dataclass(frozen=True)
class Kept:
    """One file of a cache as a sweep sees it."""

    link: str
    file: str
    used_at: float
    disk_bytes: int


def disk_bytes(size: int) -> int:
    """About what a file of that size takes, its link included."""
    return (size // _DISK_BLOCK + 2) * _DISK_BLOCK


def kept_files(root: Path) -> Iterator[Kept]:
    """Every file somebody vouched for. Removes what writers that were killed left long ago."""
    for shard in _folders(root):
        with suppress(FileNotFoundError), os.scandir(shard) as entries:
            stats = {entry.name: stat for entry in entries if (stat := _stat(entry)) is not None}
        yield from _kept_in(shard, stats)


def remove(kept: Kept) -> None:
    """Readers that have the file open keep it until they close it."""
    for path in (kept.link, kept.file):
        with suppress(FileNotFoundError):
            os.unlink(path)


def remove_abandoned(private: Path) -> None:
    """Remove the folders of processes that live no more: each holds a lock on its own while it lives."""
    for folder in _folders(private):
        with suppress(OSError):
            fd = os.open(f"{folder}/lock", os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(fd)


def _folders(root: Path) -> list[str]:
    try:
        with os.scandir(root) as entries:
            return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []


def _stat(entry: os.DirEntry[str]) -> os.stat_result | None:
    try:
        return entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None  # another process removed it


def _kept_in(shard: str, stats: dict[str, os.stat_result]) -> Iterator[Kept]:
    long_ago = time.time() - _ABANDONED_SECONDS
    vouched: set[str] = set()
    for name, stat in stats.items():
        if not S_ISLNK(stat.st_mode):
            continue
        file = f"{name}.{_label(f'{shard}/{name}')}"
        vouched.update((name, file))
        taken = stats[file].st_blocks * 512 if file in stats else 0
        yield Kept(f"{shard}/{name}", f"{shard}/{file}", stat.st_mtime, taken + _DISK_BLOCK)
    for name, stat in stats.items():
        if name not in vouched and stat.st_mtime < long_ago:
            with suppress(OSError):
                os.unlink(f"{shard}/{name}")


def _label(link: str) -> str:
    try:
        return os.readlink(link).partition(".")[0]
    except OSError:
        return ""
