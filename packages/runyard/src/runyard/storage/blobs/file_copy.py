"""Opens users' files safely, and copies files, also while hashing the bytes that were written."""

import errno
import fcntl
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from threading import Thread

from runyard.core.disk import write_all
from runyard.core.errors import InvalidArgument, NotFound
from runyard.core.ports.data import Progress
from runyard.core.records.files import AllowedFolders

SMALL_BYTES = 1 << 20
_PIECE_BYTES = 1 << 22
_RANGE_BYTES = 1 << 23
_PIECES_AHEAD = 8
_SYNC_BYTES = 1 << 26
_FICLONE = 0x40049409
_NO_RANGE_COPY = frozenset({errno.EXDEV, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS, errno.EPERM, errno.EBADF})
_NO_REFLINK = frozenset({errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.ENOSYS, errno.EPERM})


def copy_file(source: int, target: int, progress: Progress) -> int:
    """Copy all of one open file to another, with shared blocks where the file system can. Return the byte count."""
    copied = 0
    while piece := _copy_range(source, target, copied):
        copied += piece
        progress(piece)
    return copied


def copy_and_hash(source: int, target: int) -> tuple[str, int]:
    """Copy a file, by reflink if the file system supports it; returns sha256 and size of `target`."""
    pieces = _read(target) if _try_reflink(source, target) else _copy_pieces(source, target)
    return _hash_in_thread(pieces)


def hash_file(fd: int) -> tuple[str, int]:
    """sha256 and size of a file that nobody changes meanwhile."""
    return _hash_in_thread(_read(fd)) if os.fstat(fd).st_size > SMALL_BYTES else _hash_small(fd)


def start_writeback(fd: int) -> None:
    """Ask the kernel to start writing a file to disk, so that later fdatasyncs of many files overlap."""
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


def _copy_range(source: int, target: int, offset: int) -> int:
    try:
        if piece := os.copy_file_range(source, target, _RANGE_BYTES, offset_src=offset):
            return piece
    except OSError as error:
        if error.errno not in _NO_RANGE_COPY:
            raise
    # At the end too: some file systems return 0 from copy_file_range although there is more.
    return os.sendfile(target, source, offset, _RANGE_BYTES)


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
            start_writeback(target)
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


# Without O_NONBLOCK, opening a FIFO would wait for a writer.
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


@contextmanager
def open_source_file(path: Path, within: AllowedFolders | None = None) -> Iterator[tuple[int, os.stat_result]]:
    """Open a user's regular file; yields its descriptor and stat. Refuses links, FIFOs, sockets and devices, and files
    that are not `within` the allowed folders."""
    try:
        fd = os.open(path, _FLAGS)
    except (OSError, ValueError) as error:
        raise _refusal(path, error) from error
    try:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode):
            raise _not_regular(path)
        if within is not None:
            _check_place(fd, path, facts, within)
        yield fd, facts
    finally:
        os.close(fd)


def _check_place(fd: int, path: Path, facts: os.stat_result, within: AllowedFolders) -> None:
    """Ask the kernel for the path of the open file: the given path may lead elsewhere a moment later."""
    place = os.readlink(f"/proc/self/fd/{fd}")
    if not any(place.startswith(f"{folder}/") for folder in within.folders):
        raise InvalidArgument(
            f"{str(path)!r} leads out of the folders that files are taken from.", hint="Send the file itself."
        )
    if within.refuses_hard_links and facts.st_nlink > 1:
        raise InvalidArgument(f"{str(path)!r} has hard links.", hint="Send the file itself.")


def _refusal(path: Path, error: OSError | ValueError) -> NotFound | InvalidArgument:
    if isinstance(error, FileNotFoundError):
        return NotFound(f"There is no file {str(path)!r}.", hint="Was it removed meanwhile?")
    if isinstance(error, ValueError) or error.errno in (errno.ELOOP, errno.ENXIO):
        return _not_regular(path)
    return InvalidArgument(f"The file {str(path)!r} cannot be read: {error.strerror}.", hint="Check its permissions.")


def _not_regular(path: Path) -> InvalidArgument:
    return InvalidArgument(
        f"{str(path)!r} is not a regular file but a link, a folder, a pipe, a socket or a device.",
        hint="Copy what it holds into a plain file.",
    )
