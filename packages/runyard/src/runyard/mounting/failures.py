"""How errors of a store reach the script: as the errno of its read, write or close."""

import errno

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
