import threading
from collections.abc import Callable

from runyard.node.event_loop import now

_MESSAGE_SECONDS, _LINE_SECONDS = 1.0, 10.0
_GIGABYTE, _MEGABYTE = 10**9, 10**6


class TransferProgress:
    """Counts transferred bytes. Sets the run's message every second, and writes a log line every ten seconds.

    Thread-safe. A shorter transfer reports nothing.
    """

    def __init__(
        self, doing: str, total: int | None, message: Callable[[str], None], say: Callable[[str], None]
    ) -> None:
        """`doing` begins the sentence ("Fetching data"); `total` is None if it is not known."""
        self._doing, self._total, self._message, self._say = doing, total, message, say
        self._done, self._lock = 0, threading.Lock()
        self._message_at, self._line_at = now() + _MESSAGE_SECONDS, now() + _LINE_SECONDS

    def __call__(self, more: int) -> None:
        with self._lock:
            self._done += more
            time = now()
            if time >= self._message_at:
                self._message_at = time + _MESSAGE_SECONDS
                self._message(f"{self._doing}: {self._amount()}.")
            if time >= self._line_at:
                self._line_at = time + _LINE_SECONDS
                self._say(f"{self._doing}: {self._amount()}.")

    def _amount(self) -> str:
        if self._total is None:
            return f"{_format_bytes(self._done, self._done)} so far"
        done = min(self._done, self._total)
        return f"{_format_bytes(done, self._total).partition(' ')[0]} of {_format_bytes(self._total, self._total)}"


def _format_bytes(count: int, beside: int) -> str:
    """Format bytes in the unit that fits `beside`."""
    if beside >= _GIGABYTE:
        return f"{count / _GIGABYTE:.1f} GB"
    return f"{count / _MEGABYTE:.1f} MB"
