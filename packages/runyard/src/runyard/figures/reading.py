import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")
_SHARE = 20


class Reading(Generic[T]):
    """Reads a value in a thread, one read at a time, and keeps it for `keep_seconds` and at least 20 times as long as
    the read took. A database that hangs thus blocks no caller beyond its timeout."""

    def __init__(self, read: Callable[[], T], keep_seconds: float) -> None:
        self._read, self._keep_seconds = read, keep_seconds
        self._lock = threading.Lock()
        self._last: Future[T] | None = None
        self._good_until = 0.0

    def ask(self) -> Future[T]:
        """Future of the kept value, or of the read in progress."""
        with self._lock:
            last = self._last
            if last is None or (last.done() and time.monotonic() >= self._good_until):
                last = self._last = Future()
                threading.Thread(target=self._work, args=(last,), name="figures", daemon=True).start()
            return last

    def get(self, seconds: float) -> T:
        """Wait for the value. Raises TimeoutError, or what the read raised."""
        return self.ask().result(seconds)

    def _work(self, future: "Future[T]") -> None:
        began = time.monotonic()
        try:
            value = self._read()
        except BaseException as problem:
            self._good_until = time.monotonic() + self._keep_seconds
            future.set_exception(problem)
            return
        now = time.monotonic()
        self._good_until = now + max(self._keep_seconds, _SHARE * (now - began))
        future.set_result(value)
