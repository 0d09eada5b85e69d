import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from runyard.transfers.segments import INDEX_SUFFIX, index_of

_ABANDONED_SECONDS = 3600.0


@dataclass(frozen=True)
class Kept:
    """Segment on disk, with what eviction needs to know."""

    path: Path
    used_at: float
    disk_bytes: int


def kept_segments(folder: Path) -> Iterator[Kept]:
    """Yield the segments that have an index. Old files without one were left by a killed process and are removed."""
    stats = _stats(folder)
    for name, stat in stats.items():
        index = stats.get(name + INDEX_SUFFIX)
        if index is not None:
            yield Kept(folder / name, index.st_mtime, (stat.st_blocks + index.st_blocks) * 512)
        elif not _is_index_of_one(name, stats) and stat.st_mtime < time.time() - _ABANDONED_SECONDS:
            (folder / name).unlink(missing_ok=True)


def remove(segments: Sequence[Kept]) -> list[str]:
    """Remove segments and return their names. A process that has one open can still read it."""
    for segment in segments:
        for path in (index_of(segment.path), segment.path):
            path.unlink(missing_ok=True)
    return [segment.path.name for segment in segments]


def remove_earlier_layout(folder: Path, limit: float) -> list[str]:
    """Remove entries of the cache layout before segments (a folder per address) not used since `limit`."""
    removed = []
    for content in folder.glob("*/content"):
        with suppress(OSError):
            if content.stat().st_mtime <= limit:
                shutil.rmtree(content.parent)
                content.parent.with_name(f"{content.parent.name}.lock").unlink(missing_ok=True)
                removed.append(content.parent.name)
    return removed


def _is_index_of_one(name: str, stats: Mapping[str, os.stat_result]) -> bool:
    return name.endswith(INDEX_SUFFIX) and name.removesuffix(INDEX_SUFFIX) in stats


def _stats(folder: Path) -> dict[str, os.stat_result]:
    found = {}
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                found[entry.name] = entry.stat(follow_symlinks=False)
    return found
