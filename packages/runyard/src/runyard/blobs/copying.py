"""Copying a file in while its hash is made: the hash is of the bytes that were written, whatever the source does."""

import errno
import fcntl
import hashlib
import os
from collections.abc import Iterator
from queue import Queue
from threading import Thread

from runyard.blobs.disk import write_all

SMALL_BYTES = 1 << 20
_PIECE_BYTES = 1 << 22
_PIECES_AHEAD = 8
_SYNC_BYTES = 1 << 26
_FICLONE = 0x40049409
_NO_REFLINK = frozenset({errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.ENOSYS, errno.EPERM})


def copy_large(source: int, target: int) -> tuple[str, int]:
    """sha256 and size of what `target` now holds. A reflink where the file system can, else a copy."""
    pieces = _read(target) if _reflinked(source, target) else _copied(source, target)
    return _hash_beside(pieces)


def hash_of(fd: int) -> tuple[str, int]:
    """sha256 and size of a file that does not change."""
    return _hash_beside(_read(fd)) if os.fstat(fd).st_size > SMALL_BYTES else _hash_small(fd)


def start_writing_out(fd: int) -> None:
    """Ask the kernel to begin; a later fdatasync of many such files then waits once rather than for each."""
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


def _hash_small(fd: int) -> tuple[str, int]:
    data = os.pread(fd, SMALL_BYTES, 0)
    return hashlib.sha256(data).hexdigest(), len(data)


def _reflinked(source: int, target: int) -> bool:
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError as error:
        if error.errno in _NO_REFLINK:
            return False
        raise
    return True


def _read(fd: int) -> Iterator[bytes]:
    offset = 0
    while piece := os.pread(fd, _PIECE_BYTES, offset):
        yield piece
        offset += len(piece)


def _copied(source: int, target: int) -> Iterator[bytes]:
    unsynced = 0
    for piece in _read(source):
        yield piece  # first, so that it is hashed while it is written
        write_all(target, piece)
        unsynced += len(piece)
        if unsynced >= _SYNC_BYTES:
            start_writing_out(target)
            unsynced = 0


def _hash_beside(pieces: Iterator[bytes]) -> tuple[str, int]:
    """Hash in a second thread (hashlib lets go of the GIL) what this one reads and writes."""
    digest = hashlib.sha256()
    waiting: Queue[bytes | None] = Queue(_PIECES_AHEAD)

    def hash_all() -> None:
        while (piece := waiting.get()) is not None:
            digest.update(piece)

    hasher = Thread(target=hash_all, name="blob-hash", daemon=True)
    hasher.start()
    size = 0
    try:
        for piece in pieces:
            size += len(piece)
            waiting.put(piece)
    finally:
        waiting.put(None)
        hasher.join()
    return digest.hexdigest(), size
