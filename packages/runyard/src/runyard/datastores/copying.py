import errno
import os

from runyard.ports.data import Progress

_PIECE_BYTES = 1 << 23
_NO_RANGE_COPY = frozenset({errno.EXDEV, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS, errno.EPERM, errno.EBADF})


def copy(source: int, target: int, progress: Progress) -> int:
    """Copy all of one open file to another, with shared blocks where the file system can. Return the byte count."""
    copied = 0
    while piece := _copy_piece(source, target, copied):
        copied += piece
        progress(piece)
    return copied


def _copy_piece(source: int, target: int, offset: int) -> int:
    try:
        if piece := os.copy_file_range(source, target, _PIECE_BYTES, offset_src=offset):
            return piece
    except OSError as error:
        if error.errno not in _NO_RANGE_COPY:
            raise
    # At the end too: some file systems return 0 from copy_file_range although there is more.
    return os.sendfile(target, source, offset, _PIECE_BYTES)
