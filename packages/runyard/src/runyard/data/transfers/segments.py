"""Segment files of the block cache: many blocks in one file, because creating a file can cost more than a fetch.

A segment is a data file and an index file. The index is append-only, with records of fixed length. A block record says
where in the data file a block is. A seal record holds size, mtime and ctime of the data file. While the latest
seal matches the data file (no program can set a ctime), only its writer has changed it, and its blocks are valid.
Appending breaks the seal; the writer soon adds a new one.
"""

import errno
import fcntl
import os
import secrets
import struct
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from io import FileIO
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple, Self
from zlib import crc32

INDEX_SUFFIX = ".index"
RECORD = struct.Struct("<16sIQQ")
MOST_BLOCKS = 0xFFFF_FFF0
WHOLE_FILE = 0xFFFF_FFFE
_SEAL = 0xFFFF_FFFF
_TIMES = struct.Struct("<QQ")
_TOUCH_SECONDS = 60.0


class BlockKey(NamedTuple):
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

    def matches(self, stat: os.stat_result) -> bool:
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

    def new_locations(self) -> Sequence[tuple[BlockKey, "BlockLocation"]]:
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
        return [
            (BlockKey(name, block), BlockLocation(self, *location))
            for name, block, *location in records
            if block != _SEAL
        ]

    def skip_index(self, index_bytes: int) -> None:
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
        return self.seal is not None and self.seal.matches(os.fstat(file.fileno()))


class BlockLocation(NamedTuple):
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


_MOST_RECORDS = 1 << 14
_ALLOCATED_BYTES = 8 << 20
_PIECES_AT_ONCE = 512
_ONE_FILE = "-whole"


def path_for_file(folder: Path) -> Path:
    """New path for a file that `make_segment` turns into a segment."""
    return _new_path(folder, _ONE_FILE)


class Block(NamedTuple):
    key: BlockKey
    data: bytes | memoryview
    is_shared: bool


class SegmentWriter:
    """Appends blocks to a segment that it holds a lock on. Not safe for threads.

    After an OSError the writer must not be used again; blocks that were sealed before stay valid.
    """

    def __init__(self, segment: Segment, data: int, index: int) -> None:
        self.segment, self._data, self._index = segment, data, index
        self._size = self._allocated = os.fstat(data).st_size
        self._records = os.fstat(index).st_size // RECORD.size
        self._is_sealed = True
        self._is_foreign = False
        segment.seal = segment.seal or seal_of(os.fstat(data), this_boot())
        self.process = os.getpid()

    @classmethod
    def created(cls, folder: Path) -> Self:
        folder.mkdir(parents=True, exist_ok=True)
        path = _new_path(folder)
        return cls(Segment(path), *_opened(path, os.O_CREAT | os.O_EXCL))

    @classmethod
    def continued(cls, segments: Iterable[Segment], below_bytes: int) -> Self | None:
        """Writer that continues a sealed segment with room left, or None: so short runs share a segment."""
        for segment in segments:
            with suppress(OSError):
                if segment.path.name.endswith(_ONE_FILE):
                    continue
                if segment.seal is not None and segment.path.stat().st_size < below_bytes:
                    writer = cls(segment, *_opened(segment.path))
                    if segment.seal.matches(os.fstat(writer._data)) and not writer._is_torn():
                        return writer
                    writer.close()
        return None

    def has_room(self, segment_bytes: int) -> bool:
        is_there = os.fstat(self._data).st_nlink > 0
        return is_there and not self._is_foreign and self._size < segment_bytes and self._records < _MOST_RECORDS

    def append(self, blocks: Sequence[Block]) -> Iterator[tuple[BlockKey, BlockLocation]]:
        """Append blocks and return their locations. Blocks that are not shared get no record in the index."""
        offsets = list(accumulate((len(block.data) for block in blocks), initial=self._size))
        with self.segment.writing:
            self._notice_others()
            self._is_sealed = False
            self._allocate(offsets[-1])
            self._write([block.data for block in blocks])
            self._set_seal()
        placed = list(zip(blocks, offsets, strict=False))
        shared = [RECORD.pack(*block.key, offset, len(block.data)) for block, offset in placed if block.is_shared]
        self._record(b"".join(shared))
        return ((block.key, BlockLocation(self.segment, offset, len(block.data))) for block, offset in placed)

    def seal(self) -> None:
        """Write a seal, so that other processes can use what was appended."""
        if not self._is_sealed and self.segment.seal is not None and self._records:
            self._record(self.segment.seal.packed())
        self._is_sealed = True

    def finish(self) -> None:
        """Truncate what was allocated in vain, seal and close. Closes also after an OSError."""
        try:
            with self.segment.writing:
                self._notice_others()
                if self._allocated > self._size:
                    os.ftruncate(self._data, self._size)
                    self._is_sealed = False
                    self._set_seal()
            self.seal()
            self.segment.skip_index(os.fstat(self._index).st_size)
        finally:
            self.close()

    def close(self) -> None:
        """Close without a seal."""
        os.close(self._data)
        os.close(self._index)

    def _write(self, pieces: Sequence[bytes | memoryview]) -> None:
        for start in range(0, len(pieces), _PIECES_AT_ONCE):
            some = pieces[start : start + _PIECES_AT_ONCE]
            written = os.pwritev(self._data, some, self._size)
            self._size += written
            if written < sum(map(len, some)):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.segment.path))

    def _allocate(self, size: int) -> None:
        """Allocate in large steps: several times faster than block by block at write-back."""
        if size > self._allocated:
            os.posix_fallocate(self._data, self._allocated, size - self._allocated + _ALLOCATED_BYTES)
            self._allocated = size + _ALLOCATED_BYTES

    def _notice_others(self) -> None:
        """Detect writes of other programs: their bytes must not be sealed."""
        if self.segment.seal is None or not self.segment.seal.matches(os.fstat(self._data)):
            self._is_foreign = True

    def _set_seal(self) -> None:
        self.segment.seal = None if self._is_foreign else seal_of(os.fstat(self._data), this_boot())

    def _is_torn(self) -> bool:
        return os.fstat(self._index).st_size % RECORD.size != 0

    def _record(self, records: bytes) -> None:
        if os.write(self._index, records) != len(records):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(index_of(self.segment.path)))
        self._records += len(records) // RECORD.size


def make_durable(segment: Segment) -> None:
    """Sync the data and write a seal that stays valid after a reboot. Raises OSError if the segment is gone."""
    file, seal = segment.opened(), segment.seal
    if file is None or seal is None:
        return
    os.fdatasync(file.fileno())
    index = os.open(index_of(segment.path), os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        used = os.fstat(index)
        segment.seal = seal._replace(boot=0)
        os.write(index, segment.seal.packed())
        os.utime(index, ns=(used.st_atime_ns, used.st_mtime_ns))
    finally:
        os.close(index)


def make_segment(path: Path, file: bytes) -> None:
    """Turn a file at a `path_for_file` into a segment that holds this one file."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        stat = os.fstat(fd)
    finally:
        os.close(fd)
    record = RECORD.pack(file, WHOLE_FILE, 0, stat.st_size)
    index_of(path).write_bytes(record + seal_of(stat, this_boot()).packed())


def _new_path(folder: Path, suffix: str = "") -> Path:
    """New path; names sort by creation time."""
    return folder / f"{time.time_ns():016x}-{secrets.token_hex(4)}{suffix}"


def _opened(path: Path, flags: int = 0) -> tuple[int, int]:
    """Descriptors of data and index; the index is locked against other writers."""
    flags |= os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    index = os.open(index_of(path), flags | os.O_APPEND, 0o600)
    try:
        fcntl.flock(index, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.open(path, flags, 0o600), index
    except OSError:
        os.close(index)
        raise
