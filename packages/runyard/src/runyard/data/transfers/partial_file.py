import fcntl
import hashlib
import os
import secrets
import shutil
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from runyard.core.errors import StorageFull

PART_BYTES = 8 << 20
_DONE = b"\1"


class PartialFile:
    """File beside its target that is written in parts, in any order, and renamed when complete.

    `version` identifies the bytes. Parts that an earlier attempt wrote for the same target and version are used, but
    only since the last boot: after a power cut nobody knows which parts reached the disk. Several processes with one
    target each write a file of their own.
    """

    def __init__(self, target: Path, version: str, size: int) -> None:
        self._target, self._size = target, size
        self._owner = f".runyard-{_digest(target.name)}"
        self._path = target.with_name(f"{self._owner}-{_digest(version + _boot_id())}.partial")
        self._fd = self._marks = -1
        self._remove_others()
        try:
            self._open_or_begin()
        except BaseException:
            self.abandon()
            raise
        self._guard = threading.Lock()
        done = os.pread(self._marks, self._count, 0)
        self._is_done = [done[index : index + 1] == _DONE for index in range(self._count)]
        self._hash = hashlib.md5(usedforsecurity=False)
        self._hashing = threading.Lock()
        self._hashed = 0

    @property
    def _count(self) -> int:
        return -(-self._size // PART_BYTES)

    @property
    def missing(self) -> Sequence[int]:
        return [index for index in range(self._count) if not self._is_done[index]]

    @property
    def done_bytes(self) -> int:
        return sum(self.extent(index)[1] for index in range(self._count) if self._is_done[index])

    def extent(self, part: int) -> tuple[int, int]:
        """Start and length of a part."""
        start = part * PART_BYTES
        return start, min(PART_BYTES, self._size - start)

    def write(self, part: int, data: bytes | memoryview) -> bool:
        """Write a part. Returns whether the file is complete now."""
        start, rest = part * PART_BYTES, memoryview(data)
        os.posix_fallocate(self._fd, start, len(rest))  # several times faster than allocation at write-back
        while rest:
            written = os.pwrite(self._fd, rest, start)
            start, rest = start + written, rest[written:]
        os.pwrite(self._marks, _DONE, part)
        with self._guard:
            self._is_done[part] = True
            return all(self._is_done)

    def hash_ready(self) -> None:
        """Advance the MD5 over the parts that are written, unless another thread does."""
        if self._hashing.acquire(blocking=False):
            try:
                self._hash_on()
            finally:
                self._hashing.release()

    def md5(self) -> str:
        """MD5 of the complete file."""
        with self._hashing:
            self._hash_on()
        return self._hash.hexdigest()

    def finish(self) -> None:
        os.rename(self._path, self._target)
        self._marks_path.unlink()
        self.close()

    def abandon(self) -> None:
        """Remove what was written."""
        for path in (self._marks_path, self._path):
            path.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Close the files and leave them for a later attempt. Safe to repeat."""
        for fd in (self._fd, self._marks):
            with suppress(OSError):
                os.close(fd)
        self._fd = self._marks = -1

    @property
    def _marks_path(self) -> Path:
        return self._path.with_suffix(".parts")

    def _open_or_begin(self) -> None:
        self._marks = _opened(self._marks_path)
        try:
            fcntl.flock(self._marks, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._marks)
            self._path = self._target.with_name(f"{self._owner}-{secrets.token_hex(8)}.partial")
            self._marks = _opened(self._marks_path)
            fcntl.flock(self._marks, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._fd = _opened(self._path)
        _check_room(self._target.parent, self._size - os.fstat(self._fd).st_blocks * 512)
        if os.fstat(self._fd).st_size != self._size or os.fstat(self._marks).st_size != self._count:
            for fd, size in ((self._marks, self._count), (self._fd, self._size)):
                os.ftruncate(fd, 0)
                os.ftruncate(fd, size)

    def _remove_others(self) -> None:
        """Remove what attempts for other versions of the file left here."""
        for marks in self._target.parent.glob(f"{self._owner}-*.parts"):
            if marks == self._marks_path:
                continue
            with suppress(OSError):
                fd = os.open(marks, os.O_RDWR | os.O_CLOEXEC)
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    marks.with_suffix(".partial").unlink(missing_ok=True)
                    marks.unlink()
                finally:
                    os.close(fd)

    def _hash_on(self) -> None:
        while self._hashed < self._count and self._is_done[self._hashed]:
            start, length = self.extent(self._hashed)
            self._hash.update(os.pread(self._fd, length, start))
            self._hashed += 1


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


@cache
def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")


def _check_room(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise StorageFull(
            f"{needed} bytes more are to be written below {str(folder)!r}, whose disk has {free} left.",
            hint="Free space (`runyard gc`, `runyard du`) and try again.",
        )
