"""Blocks lie one after another in segments: making a file can cost more than fetching what it shall hold.

A segment is a data file and an index beside it, of records of one length, only ever appended to. A record names a
block and says where in the data it lies. A record of another kind, the seal, states size, mtime and ctime of the data
file. While the latest seal holds (no program can set a ctime), nobody has touched the data since its writer did, and
its blocks may be used. A writer that goes on breaks its own seal and makes another one soon.
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
    """A block of a file, or all of it."""

    file: bytes
    block: int


class Seal(NamedTuple):
    size: int
    modified: int
    changed: int
    boot: int
    """The start of this machine that it is good for, 0 for any: a power cut leaves only what was synced."""

    def packed(self) -> bytes:
        return RECORD.pack(_TIMES.pack(self.modified, self.changed), _SEAL, self.size, self.boot)

    def holds_of(self, stat: os.stat_result) -> bool:
        # Removing the last name of a file changes its ctime: an evicted one that is still open is as good as before.
        is_untouched = stat.st_ctime_ns == self.changed or stat.st_nlink == 0
        is_same = stat.st_size == self.size and stat.st_mtime_ns == self.modified
        return is_same and is_untouched and self.boot in (0, this_boot())


def seal_of(stat: os.stat_result, boot: int) -> Seal:
    return Seal(stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, boot)


class Segment:
    """One segment as a reader sees it. Safe for many threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.seal: Seal | None = None
        self.writing = threading.Lock()
        """Held by a writer of this process between touching the data and setting `seal`."""
        self._index_read = 0
        self._file: FileIO | None = None
        self._touched_at = time.monotonic()
        self._guard = threading.Lock()

    def new_places(self) -> Sequence[tuple[Key, "Place"]]:
        """The blocks that were added since the last call, once their seal holds. OSError when the segment is gone."""
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
        return [(Key(name, block), Place(self, *place)) for name, block, *place in records if block != _SEAL]

    def has_told(self, index_bytes: int) -> None:
        """`new_places` shall not tell what lies before there in the index: the caller wrote it."""
        self._index_read = index_bytes

    def opened(self) -> FileIO | None:
        """The data, if its seal holds. Stays readable for who has it, whatever becomes of the segment."""
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
    """Where a block lies."""

    segment: Segment
    offset: int
    length: int

    def read(self, start: int, length: int) -> bytes | None:
        """That part of the block; None when it is not there any more as it was written."""
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
    """A number that another start of the machine has not."""
    return crc32(Path("/proc/sys/kernel/random/boot_id").read_bytes()) or 1
