import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class ExpiringCache(Generic[Key, Value]):
    """Cache of the latest `most` values, each for `seconds`. Safe for many threads."""

    def __init__(self, most: int, seconds: float, now: Callable[[], float] = time.monotonic) -> None:
        self._most, self._seconds, self._now = most, seconds, now
        self._kept: OrderedDict[Key, tuple[float, Value]] = OrderedDict()
        self._lock = threading.Lock()

    def put(self, key: Key, value: Value) -> None:
        with self._lock:
            self._kept.pop(key, None)
            self._kept[key] = (self._now() + self._seconds, value)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)

    def drop(self, key: Key) -> None:
        with self._lock:
            self._kept.pop(key, None)

    def kept(self) -> list[Key]:
        with self._lock:
            return list(self._kept)

    def get(self, key: Key) -> Value | None:
        with self._lock:
            until, value = self._kept.get(key, (0.0, None))
            if value is not None and until < self._now():
                del self._kept[key]
                return None
            return value
