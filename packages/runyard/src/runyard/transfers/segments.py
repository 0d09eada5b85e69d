"""Segment files of the block cache: many blocks in one file, because creating a file can cost more than a fetch.

A segment is a data file and an index file. The index is append-only, with records of fixed length. A block record says
where in the data file a block is. A seal record holds size, mtime and ctime of the data file. While the latest
seal matches the data file (no program can set a ctime), only its writer has changed it, and its blocks are valid.
Appending breaks the seal; the writer soon adds a new one.
"""

import os
import struct
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from io import FileIO
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

INDEX_SUFFIX = ".index"
RECORD = struct.Struct("<16sIQQ")
MOST_BLOCKS = 0xFFFF_FFF0
WHOLE_FILE = 0xFFFF_FFFE
_SEAL = 0xFFFF_FFFF
_TIMES = struct.Struct("<QQ")
_TOUCH_SECONDS = 60.0


class Key(NamedTuple):
    """Identifies a block of a file, or the whole file (WHOLE_FILE)."""

    file: bytes
    block: int


class Seal(NamedTuple):
    size: int
    modified: int
    changed: int
    boot: int
    """Boot of this machine that the seal is valid for; 0 for any, if the data was synced."""

    def packed(self) -> bytes:
        return RECORD.pack(_TIMES.pack(self.modified, self.changed), _SEAL, self.size, self.boot)

    def holds_of(self, stat: os.stat_result) -> bool:
        # Unlinking a file changes its ctime. An evicted segment that is still open stays valid.
        is_untouched = stat.st_ctime_ns == self.changed or stat.st_nlink == 0
        is_same = stat.st_size == self.size and stat.st_mtime_ns == self.modified
        return is_same and is_untouched and self.boot in (0, this_boot())


def seal_of(stat: os.stat_result, boot: int) -> Seal:
    return Seal(stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, boot)


class Segment:
    """Reader of one segment. Safe for many threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.seal: Seal | None = None
        self.writing = threading.Lock()
        """Held by a writer of this process from its change of the data until it sets `seal`."""
        self._index_read = 0
        self._file: FileIO | None = None
        self._touched_at = time.monotonic()
        self._guard = threading.Lock()

    def new_places(self) -> Sequence[tuple[Key, "Place"]]:
        """Blocks added since the last call, if the seal is valid. Raises OSError if the segment is gone."""
        with open(index_of(self.path), "rb") as file:
            file.seek(self._index_read)
            content = file.read()
        records = list(RECORD.iter_unpack(content[: len(content) - len(content) % RECORD.size]))
        for times, block, size, boot in reversed(records):
            if block == _SEAL:
                modified, changed = _TIMES.unpack(times)
                self.seal = Seal(size, modified, changed, boot)
                break
        if self.opened() is None:
            return ()
        self._index_read += len(records) * RECORD.size
        return [(Key(name, block), Place(self, *location)) for name, block, *location in records if block != _SEAL]

    def has_told(self, index_bytes: int) -> None:
        """Skip the first `index_bytes` of the index from now on: the caller wrote them."""
        self._index_read = index_bytes

    def opened(self) -> FileIO | None:
        """Data file, if its seal is valid, else None. It stays readable after the segment is evicted."""
        file = self._descriptor()
        if file is None or self._is_sealed(file):
            return file
        with self.writing:
            return file if self._is_sealed(file) else None

    def mark_used(self) -> None:
        if time.monotonic() - self._touched_at > _TOUCH_SECONDS:
            self._touched_at = time.monotonic()
            with suppress(OSError):
                os.utime(index_of(self.path))

    def _descriptor(self) -> FileIO | None:
        with self._guard:
            if self._file is None:
                with suppress(OSError):
                    self._file = FileIO(os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb")
            return self._file

    def _is_sealed(self, file: FileIO) -> bool:
        return self.seal is not None and self.seal.holds_of(os.fstat(file.fileno()))


class Place(NamedTuple):
    """Where a block is on disk."""

    segment: Segment
    offset: int
    length: int

    def read(self, start: int, length: int) -> bytes | None:
        """Part of the block; None if the segment was changed or removed."""
        file = self.segment.opened()
        if file is None:
            return None
        self.segment.mark_used()
        part = os.pread(file.fileno(), length, self.offset + start)
        return part if len(part) == length else None


def index_of(segment: Path) -> Path:
    return segment.with_name(segment.name + INDEX_SUFFIX)


@cache
def this_boot() -> int:
    """Number of the current boot, never 0."""
    return crc32(Path("/proc/sys/kernel/random/boot_id").read_bytes()) or 1
