import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def write_beside(path: Path, content: bytes, *, durable: bool = False) -> None:
    """Replace `path` in one step: a reader sees the old content or the new, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fd, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}.")
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(fd)
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise


def synced(path: Path) -> None:
    """The file's bytes are on the disk. OSError when they do not fit."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextmanager
def locked(path: Path, on_wait: Callable[[], None] | None = None) -> Iterator[int]:
    """Hold the file's lock alone, and yield its descriptor. `on_wait` is called once if another holds it now."""
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
def shared(path: Path) -> Iterator[int]:
    """Hold the file's lock together with any number of others, and yield its descriptor."""
    fd = _opened(path)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH)
        yield fd
    finally:
        os.close(fd)


@contextmanager
def locked_if_free(path: Path) -> Iterator[bool]:
    """Hold the lock alone if nobody holds it; yields whether it does."""
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
    """Tell whether a living process holds this lock file; False where there is none."""
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
