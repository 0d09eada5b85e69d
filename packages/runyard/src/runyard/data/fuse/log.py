import os
import threading
import time
from collections.abc import Callable

from runyard.core.errors import RunyardError

_MOST_PROBLEMS = 200
_REMEMBERED_SECONDS = 60.0

WriteLine = Callable[[str], None]
"""Writes one line; its text has no line end."""


class MountLog:
    """Log of a mount, for people. Safe for many threads.

    The same problem is logged once a minute, so that a script that reads a broken file in a loop cannot fill the disk.
    """

    def __init__(self, write_line: WriteLine) -> None:
        self._write_line = write_line
        self._lock = threading.Lock()
        self._logged_at: dict[str, float] = {}

    def line(self, text: str) -> None:
        with self._lock:
            self._write_line(" ".join(text.splitlines()))

    def line_if_any(self, text: str) -> None:
        if text:
            self.line(text)

    def problem(self, text: str) -> None:
        now = time.monotonic()
        with self._lock:
            if now - self._logged_at.get(text, -_REMEMBERED_SECONDS) < _REMEMBERED_SECONDS:
                return
            if len(self._logged_at) >= _MOST_PROBLEMS:
                self._logged_at = {line: at for line, at in self._logged_at.items() if now - at < _REMEMBERED_SECONDS}
                if len(self._logged_at) >= _MOST_PROBLEMS:
                    return
            self._logged_at[text] = now
        self.line(text)

    def unexpected(self, error: BaseException) -> None:
        words = str(error) if isinstance(error, RunyardError | OSError) else f"{type(error).__name__}: {error}"
        self.problem(f"The mount failed inside: {words}")


def line_writer(descriptor: int) -> WriteLine:
    """Writer of lines, each in one write(2): other processes append to the same file. Ignores a full disk."""

    def write_line(text: str) -> None:
        try:
            os.write(descriptor, text.encode("utf-8", "replace") + b"\n")
        except OSError:
            return

    return write_line


class ReadProgress:
    """Counts the bytes of a mount that were read for the first time."""

    def __init__(self, name: str, total: int | None) -> None:
        """`total` is None if unknown."""
        self._name, self._total = name, total
        self._of_file: dict[int, int] = {}
        self._shown = 0
        self.bytes = 0

    def add(self, node: int, count: int, size: int | None) -> None:
        """Count a read of a file of that size. Without a lock: a lost count between threads does not matter."""
        seen = self._of_file.get(node, 0)
        more = count if size is None else min(count, size - seen)
        if more > 0:
            self._of_file[node] = seen + more
            self.bytes += more

    def new_bytes(self) -> int:
        """Bytes read since the last call."""
        before, self._shown = self._shown, self.bytes
        return self._shown - before

    def progress_line(self) -> str:
        """Log line if more was read since the last one, else ""."""
        if not self.new_bytes():
            return ""
        whole = "" if self._total is None else f" of {megabytes(max(self._total, self.bytes))}"
        return f"{self._name}: {megabytes(self.bytes)}{whole} read"


def megabytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB"
