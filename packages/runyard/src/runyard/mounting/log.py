import os
import threading
import time
from collections.abc import Callable

from runyard.errors import RunyardError

_MOST_PROBLEMS = 200
_REMEMBERED_SECONDS = 60.0

Say = Callable[[str], None]
"""Writes one line; its text has no line end."""


class MountLog:
    """Log of a mount, for people. Safe for many threads.

    The same problem is logged once a minute, so that a script that reads a broken file in a loop cannot fill the disk.
    """

    def __init__(self, say: Say) -> None:
        self._say = say
        self._lock = threading.Lock()
        self._logged_at: dict[str, float] = {}

    def line(self, text: str) -> None:
        with self._lock:
            self._say(" ".join(text.splitlines()))

    def line_if_any(self, text: str) -> None:
        if text:
            self.line(text)

    def trouble(self, text: str) -> None:
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
        self.trouble(f"The mount failed inside: {words}")


def lines_to(descriptor: int) -> Say:
    """Writer of lines, each in one write(2): other processes append to the same file. Ignores a full disk."""

    def say(text: str) -> None:
        try:
            os.write(descriptor, text.encode("utf-8", "replace") + b"\n")
        except OSError:
            return

    return say
