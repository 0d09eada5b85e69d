import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runyard.errors import InvalidArgument, NotFound
from runyard.model.files import Within

# Without O_NONBLOCK, opening a FIFO would wait for a writer.
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


@contextmanager
def opened_source(path: Path, within: Within | None = None) -> Iterator[tuple[int, os.stat_result]]:
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


def _check_place(fd: int, path: Path, facts: os.stat_result, within: Within) -> None:
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
