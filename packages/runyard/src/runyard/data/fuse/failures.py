"""Errors of stores as errno values: what the script gets from read, write or close."""

import errno
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from runyard.core.errors import (
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
from runyard.data.fuse.log import MountLog

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


_RECENT_SECONDS = 1.0


def errno_of(error: RunyardError | OSError) -> int:
    if isinstance(error, OSError):
        return error.errno or errno.EIO
    return next((number for kind, number in _NUMBERS if isinstance(error, kind)), errno.EIO)


class RecentFailures:
    """Reads that failed just now, by node.

    The kernel repeats a failed read-ahead at once as a plain read. Without this, a script would wait twice for a store
    that does not respond.
    """

    def __init__(self) -> None:
        self._failures: dict[int, tuple[float, int]] = {}

    def note(self, node: int, number: int) -> None:
        self._failures[node] = (time.monotonic(), number)

    def raise_recent(self, node: int) -> None:
        """Raise the error of a read that failed within the last second, once."""
        at, number = self._failures.pop(node, (0.0, 0))
        if number and time.monotonic() - at < _RECENT_SECONDS:
            raise os_error(number)


def os_error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def _ignore(_: str) -> None:
    pass


@contextmanager
def logged_errors(log: MountLog, doing: str, remember: Callable[[str], None] = _ignore) -> Iterator[None]:
    """Log an error of the block, pass the line to `remember`, and raise an OSError for the script."""
    try:
        yield
    except (RunyardError, OSError) as error:
        sentence = f"{doing} failed: {error}"
        log.problem(sentence)
        remember(sentence)
        raise os_error(errno_of(error)) from error
