"""How errors of a store reach the script: as the errno of its read, write or close."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from runyard.errors import (
    AccessDenied,
    AlreadyExists,
    InvalidArgument,
    NotFound,
    RunyardError,
    SourceChanged,
    StorageFull,
    TooLarge,
    Unreachable,
)
from runyard.mounting.log import MountLog

_NUMBERS: tuple[tuple[type[RunyardError], int], ...] = (
    (NotFound, errno.ENOENT),
    (AccessDenied, errno.EACCES),
    (SourceChanged, errno.ESTALE),
    (Unreachable, errno.ETIMEDOUT),
    (StorageFull, errno.ENOSPC),
    (TooLarge, errno.EFBIG),
    (AlreadyExists, errno.EEXIST),
    (InvalidArgument, errno.EINVAL),
)


def errno_of(error: RunyardError | OSError) -> int:
    if isinstance(error, OSError):
        return error.errno or errno.EIO
    return next((number for kind, number in _NUMBERS if isinstance(error, kind)), errno.EIO)


def os_error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def _forgotten(_: str) -> None:
    pass


@contextmanager
def told(log: MountLog, doing: str, remember: Callable[[str], None] = _forgotten) -> Iterator[None]:
    """An error in here is a line of the log, and reaches the script as an OSError."""
    try:
        yield
    except (RunyardError, OSError) as error:
        sentence = f"{doing} failed: {error}"
        log.trouble(sentence)
        remember(sentence)
        raise os_error(errno_of(error)) from error
