"""Values that may take long to read, as of a database that is away."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")
_SHARE = 20


class Reading(Generic[T]):
    """Reads a value in a thread of its own, one at a time. A value is kept for `keep_seconds`, and for 20 times as long
    as it took to read, so that asking often costs little."""

    def __init__(self, read: Callable[[], T], keep_seconds: float) -> None:
        self._read, self._keep_seconds = read, keep_seconds
        self._lock = threading.Lock()
        self._last: Future[T] | None = None
        self._good_until = 0.0

    def ask(self) -> Future[T]:
        """The kept value, or the one that is being read."""
        with self._lock:
            last = self._last
            if last is None or (last.done() and time.monotonic() >= self._good_until):
                last = self._last = Future()
                threading.Thread(target=self._work, args=(last,), name="figures", daemon=True).start()
            return last

    def get(self, seconds: float) -> T:
        """Raises TimeoutError after so long, and what reading raised."""
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
