import os
import threading
import time
from collections.abc import Callable

from runyard.errors import RunyardError

_MOST_TROUBLES = 200
_REMEMBERED_SECONDS = 60.0

Say = Callable[[str], None]
"""Takes one line, without its end."""


class MountLog:
    """What a mount has to tell: lines for people. Many threads may write. A trouble that repeats is told once a minute,
    so that a script that tries a broken file a thousand times does not fill the disk."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._lock = threading.Lock()
        self._told: dict[str, float] = {}

    def line(self, text: str) -> None:
        with self._lock:
            self._say(" ".join(text.splitlines()))

    def line_if_any(self, text: str) -> None:
        if text:
            self.line(text)

    def trouble(self, text: str) -> None:
        now = time.monotonic()
        with self._lock:
            if now - self._told.get(text, -_REMEMBERED_SECONDS) < _REMEMBERED_SECONDS:
                return
            if len(self._told) >= _MOST_TROUBLES:
                self._told = {line: at for line, at in self._told.items() if now - at < _REMEMBERED_SECONDS}
                if len(self._told) >= _MOST_TROUBLES:
                    return
            self._told[text] = now
        self.line(text)

    def unexpected(self, error: BaseException) -> None:
        words = str(error) if isinstance(error, RunyardError | OSError) else f"{type(error).__name__}: {error}"
        self.trouble(f"The mount failed inside: {words}")


def lines_to(descriptor: int) -> Say:
    """Whole lines, each in one write: other processes append to the same file. A full disk loses them, no more."""

    def say(text: str) -> None:
        try:
            os.write(descriptor, text.encode("utf-8", "replace") + b"\n")
        except OSError:
            return

    return say
