"""Opens users' files safely, and copies files while hashing the bytes that were written."""

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
    """Copy a file, by reflink if the file system supports it; returns sha256 and size of `target`."""
    pieces = _read(target) if _try_reflink(source, target) else _copy_pieces(source, target)
    return _hash_in_thread(pieces)


def hash_of(fd: int) -> tuple[str, int]:
    """sha256 and size of a file that nobody changes meanwhile."""
    return _hash_in_thread(_read(fd)) if os.fstat(fd).st_size > SMALL_BYTES else _hash_small(fd)


def start_writing_out(fd: int) -> None:
    """Ask the kernel to start writing a file to disk, so that later fdatasyncs of many files overlap."""
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


def _hash_small(fd: int) -> tuple[str, int]:
    data = os.pread(fd, SMALL_BYTES, 0)
    return hashlib.sha256(data).hexdigest(), len(data)


def _try_reflink(source: int, target: int) -> bool:
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


def _copy_pieces(source: int, target: int) -> Iterator[bytes]:
    unsynced = 0
    for piece in _read(source):
        yield piece  # yield first, so that it is hashed while it is written
        write_all(target, piece)
        unsynced += len(piece)
        if unsynced >= _SYNC_BYTES:
            start_writing_out(target)
            unsynced = 0


def _hash_in_thread(pieces: Iterator[bytes]) -> tuple[str, int]:
    """Hash in a second thread what this thread reads and writes; hashlib releases the GIL."""
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
