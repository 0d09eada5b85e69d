import errno
import fcntl
import os
import secrets
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple, Self

from runyard.transfers.segments import RECORD, WHOLE_FILE, Key, Place, Segment, index_of, seal_of, this_boot

_MOST_RECORDS = 1 << 14
_ALLOCATED_BYTES = 8 << 20
_PIECES_AT_ONCE = 512
_ONE_FILE = "-whole"


def path_for_file(folder: Path) -> Path:
    """New path for a file that `make_segment` turns into a segment."""
    return _new_path(folder, _ONE_FILE)


class Block(NamedTuple):
    key: Key
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
                    if segment.seal.holds_of(os.fstat(writer._data)) and not writer._is_torn():
                        return writer
                    writer.close()
        return None

    def has_room(self, segment_bytes: int) -> bool:
        is_there = os.fstat(self._data).st_nlink > 0
        return is_there and not self._is_foreign and self._size < segment_bytes and self._records < _MOST_RECORDS

    def append(self, blocks: Sequence[Block]) -> Iterator[tuple[Key, Place]]:
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
        return ((block.key, Place(self.segment, offset, len(block.data))) for block, offset in placed)

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
            self.segment.has_told(os.fstat(self._index).st_size)
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
        if self.segment.seal is None or not self.segment.seal.holds_of(os.fstat(self._data)):
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
