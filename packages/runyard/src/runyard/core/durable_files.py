import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PRIVATE = 0o600


def replace_file(path: Path, content: bytes, *, durable: bool = False, mode: int = _PRIVATE) -> None:
    """Replace `path` atomically: a reader sees the old content or the new, never a part. `durable` calls fsync.

    Creates folders. By default only the owner may read the file."""
    with replacement(path, mode=_PRIVATE, make_folder=True) as fd:
        with open(fd, "wb", closefd=False) as file:
            file.write(content)
        if mode != _PRIVATE:
            os.fchmod(fd, mode)
        if durable:
            os.fsync(fd)


@contextmanager
def replacement(target: Path, *, mode: int = 0o666, make_folder: bool = False) -> Iterator[int]:
    """Descriptor of a new file that replaces `target` at the end of the block; after an error it is removed.

    The umask reduces `mode`. Raises OSError."""
    beside = str(target.parent / f".{target.name[:40]}.{os.urandom(8).hex()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        fd = os.open(beside, flags, mode)
    except FileNotFoundError:
        if not make_folder:
            raise
        target.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(beside, flags, mode)
    try:
        try:
            yield fd
        finally:
            os.close(fd)
        os.replace(beside, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside)
        raise


def fsync_file(path: Path) -> None:
    """Flush the file to disk. Raises OSError when the disk is full."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextmanager
def exclusive_lock(path: Path, on_wait: Callable[[], None] | None = None) -> Iterator[int]:
    """Hold an exclusive lock on the file and yield its descriptor. `on_wait` is called once if it has to wait."""
    fd = _opened(path)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if on_wait:
                on_wait()
            fcntl.flock(fd, fcntl.LOCK_EX)
        yield fd
    finally:
        os.close(fd)


@contextmanager
def shared_lock(path: Path) -> Iterator[int]:
    """Hold a shared lock on the file and yield its descriptor."""
    fd = _opened(path)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH)
        yield fd
    finally:
        os.close(fd)


@contextmanager
def try_exclusive_lock(path: Path) -> Iterator[bool]:
    """Try to take an exclusive lock without waiting; yields whether it was taken."""
    fd = _opened(path)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(fd)


def _opened(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def is_locked(lock: Path) -> bool:
    """Whether a living process holds this lock exclusively; False when the file does not exist."""
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: two that ask do not find each other
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
