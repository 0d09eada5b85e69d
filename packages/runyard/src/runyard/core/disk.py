import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runyard.core.errors import RunyardError, StorageFull


def is_disk_full(error: OSError) -> bool:
    """Whether the error says that the disk, or the user's quota on it, is full."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def disk_errors_explained(path: Path) -> Iterator[None]:
    """Turn OSError into StorageFull for a full disk, else into a RunyardError that names the file."""
    try:
        yield
    except OSError as error:
        if is_disk_full(error):
            raise StorageFull(
                f"The disk of {str(path)!r} is full.", hint="Free space (`runyard gc`, `runyard du`) and try again."
            ) from error
        raise RunyardError(f"The disk failed at {error.filename or path}: {error.strerror}.") from error


def lies_in(path: Path, root: Path) -> bool:
    """Whether the path is `root` or below it, links followed."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root))


def write_all(fd: int, data: bytes | memoryview) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
