import os
import select
import stat
from pathlib import Path

_PIECE_BYTES = 4096
"""Bytes that a ready pipe accepts without blocking."""
_LINE_BYTES = 1 << 16


def is_own_file(path: Path) -> bool:
    """True if standard error is this file."""
    try:
        return os.path.samestat(os.fstat(2), path.stat())
    except OSError:
        return False


def write_if_it_can(data: bytes) -> None:
    """Write to standard error without blocking: data that a full pipe or a stopped terminal does not accept is
    dropped."""
    waiting = select.poll()
    waiting.register(2, select.POLLOUT)
    while data and waiting.poll(0):
        data = data[os.write(2, data[:_PIECE_BYTES]) :]


def keep_end(fd: int, most_bytes: int = 16 << 20, kept_bytes: int = 1 << 20) -> None:
    """Cut an append-only file to its last `kept_bytes` once it is larger than `most_bytes`.

    Only for files that nobody reads by offsets. Lines written meanwhile may be lost; the file is never empty.
    """
    found = os.fstat(fd)
    if stat.S_ISREG(found.st_mode) and found.st_size > most_bytes:
        # A descriptor of its own: one that appends can write nowhere but at the end.
        with open(f"/proc/self/fd/{fd}", "r+b", buffering=0) as written:
            start = line_start(written.fileno(), found.st_size - kept_bytes)
            kept = os.pread(written.fileno(), found.st_size - start, start)
            written.write(kept)
            written.truncate(len(kept))


def line_start(fd: int, offset: int) -> int:
    """Offset of the first line that begins after `offset`."""
    found = os.pread(fd, _LINE_BYTES, offset).find(b"\n")
    return offset if found < 0 else offset + found + 1
