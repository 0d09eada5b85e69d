"""Outputs of log lines: a rotating file that several processes append to, and standard error."""

import fcntl
import os
import select
import stat
from collections.abc import Callable
from pathlib import Path

MOST_BYTES = 8 << 20
COUNT = 5
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class RotatingFile:
    """Appends whole lines to `path`; at `most_bytes` it becomes `path.1`, that one `path.2`, and so on up to `count`
    files. Never raises: lines that cannot be written are counted, and `lost(count)` gives the line that reports them
    later.

    Safe beside other processes that write the same file; one thread of each process at a time. Creates the folder if
    it is missing, but not its parent.
    """

    def __init__(
        self, path: Path, lost: Callable[[int], bytes], *, most_bytes: int = MOST_BYTES, count: int = COUNT
    ) -> None:
        self._path, self._lost_line, self._most_bytes, self._count = path, lost, most_bytes, count
        self._fd = -1
        self._lost, self._is_torn = 0, False

    def write(self, lines: bytes) -> None:
        try:
            self._append(lines)
        except OSError:
            self._lost += lines.count(b"\n")

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _append(self, lines: bytes) -> None:
        size = self._open()
        if size and size + len(lines) > self._most_bytes:
            self._rotate()
            size = self._open()
            if size > 2 * self._most_bytes:
                raise OSError("the file cannot be rotated")
        notice = self._lost_line(self._lost) if self._lost else b""
        data = b"\n" * self._is_torn + notice + lines
        written = os.write(self._fd, data)
        self._is_torn, self._lost = written < len(data), 0
        if self._is_torn:  # the disk is full: the next line begins on a line of its own
            self._lost = lines.count(b"\n")

    def _open(self) -> int:
        """Open the file that has the path now; return its size."""
        try:
            named = os.stat(self._path)
        except FileNotFoundError:
            named = None
        if self._fd >= 0:
            ours = os.fstat(self._fd)
            if named is not None and (ours.st_ino, ours.st_dev) == (named.st_ino, named.st_dev):
                return ours.st_size
            self.close()
        self._path.parent.mkdir(mode=0o700, exist_ok=True)
        self._fd = os.open(self._path, _FLAGS, 0o600)
        return os.fstat(self._fd).st_size

    def _rotate(self) -> None:
        """Rotate, unless another process is doing it or has done it. A kill in between leaves a gap in the numbers."""
        lock = os.open(self._path.with_name(f".{self._path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.stat(self._path).st_ino != os.fstat(self._fd).st_ino:
                return
            for number in range(self._count - 1, 0, -1):
                earlier = self._path if number == 1 else rotated_path(self._path, number - 1)
                if earlier.exists():
                    earlier.replace(rotated_path(self._path, number))
        except (BlockingIOError, FileNotFoundError):
            return
        finally:
            os.close(lock)


def rotated_path(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")


_PIECE_BYTES = 4096
"""Bytes that a ready pipe accepts without blocking."""
_LINE_BYTES = 1 << 16


def is_standard_error(path: Path) -> bool:
    """True if standard error is this file."""
    try:
        return os.path.samestat(os.fstat(2), path.stat())
    except OSError:
        return False


def write_without_blocking(data: bytes) -> None:
    """Write to standard error without blocking: data that a full pipe or a stopped terminal does not accept is
    dropped."""
    waiting = select.poll()
    waiting.register(2, select.POLLOUT)
    while data and waiting.poll(0):
        data = data[os.write(2, data[:_PIECE_BYTES]) :]


def keep_tail(fd: int, most_bytes: int = 16 << 20, kept_bytes: int = 1 << 20) -> None:
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
