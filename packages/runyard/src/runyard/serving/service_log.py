"""Log file of a web service: workers append to it, its oldest part is dropped, and offsets stay valid.

Dropping punches a hole into the file. Its length and the offsets of its bytes do not change, so concurrent writers and
readers are not disturbed.
"""

import contextlib
import ctypes
import json
import os
from datetime import UTC, datetime
from pathlib import Path

from runyard.core.durable_files import replace_file
from runyard.process_logs.output import line_start

MOST_BYTES = 64 << 20
_KEPT_BYTES = 32 << 20
_PIECE_BYTES = 1 << 16
_KEEP_SIZE, _PUNCH_HOLE = 1, 2
_libc = ctypes.CDLL(None, use_errno=True)
_libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]


class ServiceLog:
    """Writes lines of the gateway and gives workers the descriptor that they append to."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def fileno(self) -> int:
        return self._fd

    def write_line(self, text: str) -> None:
        """Append a line of the gateway's own. On a full disk the line is lost, and nothing is raised."""
        at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        with contextlib.suppress(OSError):
            os.write(self._fd, f"{at} Runyard: {text}\n".encode("utf-8", "replace"))

    def end(self) -> int:
        """Offset behind the last byte."""
        return os.fstat(self._fd).st_size

    def since(self, offset: int, most_lines: int) -> str:
        """Last lines written from `offset` on."""
        return _text(os.pread(self._fd, _PIECE_BYTES, max(offset, self.end() - _PIECE_BYTES)), most_lines)

    def drop_oldest(self, most_bytes: int = MOST_BYTES, kept_bytes: int = _KEPT_BYTES) -> None:
        """When it is larger than `most_bytes`, keep about `kept_bytes`, from the start of a line.

        Raises OSError when the disk is too full to write down the new start.
        """
        end, dropped = self.end(), dropped_bytes(self._path)
        if end - dropped <= most_bytes:
            return
        start = line_start(self._fd, end - kept_bytes)
        # Punch the hole first: it may free the space that the note needs.
        _libc.fallocate(self._fd, _PUNCH_HOLE | _KEEP_SIZE, 0, start)
        replace_file(_facts_file(self._path), json.dumps({"dropped": start}).encode())

    def close(self) -> None:
        os.close(self._fd)


def read_log(path: Path, offset: int, limit: int) -> tuple[bytes, int]:
    """Bytes from `offset` on, at most `limit`, and the offset behind them. A negative offset counts from the end;
    dropped bytes are skipped."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return b"", max(0, offset)
    try:
        end = os.fstat(fd).st_size
        start = _after_hole(fd, max(end + offset if offset < 0 else offset, dropped_bytes(path)), end)
        data = os.pread(fd, max(0, min(limit, end - start)), start)
        return data, start + len(data)
    finally:
        os.close(fd)


def dropped_bytes(path: Path) -> int:
    try:
        return int(json.loads(_facts_file(path).read_bytes())["dropped"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def _facts_file(path: Path) -> Path:
    return path.with_name("log.json")


def _after_hole(fd: int, offset: int, end: int) -> int:
    """First offset that holds data: the note of the last drop may not be written yet."""
    try:
        return os.lseek(fd, offset, os.SEEK_DATA)
    except OSError:
        return max(offset, end)


def _text(data: bytes, most_lines: int) -> str:
    return "\n".join(data.decode("utf-8", "replace").splitlines()[-most_lines:])
