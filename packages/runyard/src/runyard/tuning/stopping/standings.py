from array import array
from bisect import insort
from collections import OrderedDict
from collections.abc import Callable, Iterable

MOST_KEPT = 4_000_000
"""Numbers of eight bytes each."""
_OVERHEAD = 32
"""Overhead of a kept interval, counted in numbers."""


class Standings:
    """Sorted scores of trials at single intervals: a cache of the intervals used last."""

    def __init__(self, most_kept: int = MOST_KEPT) -> None:
        self._most_kept, self._size = most_kept, 0
        self._kept: OrderedDict[int, array[float]] = OrderedDict()

    def __contains__(self, interval: int) -> bool:
        return interval in self._kept

    def __len__(self) -> int:
        return len(self._kept)

    def at(self, interval: int, read: Callable[[], Iterable[float]]) -> "array[float]":
        """Sorted scores at the interval. `read` gives them in any order; called if they are not cached."""
        found = self._kept.get(interval)
        if found is None:
            found = self._kept[interval] = array("d", sorted(read()))
            self._size += len(found) + _OVERHEAD
            self._evict()
        else:
            self._kept.move_to_end(interval)
        return found

    def add(self, interval: int, value: float) -> None:
        """Add the score of one more trial at a cached interval."""
        insort(self._kept[interval], value)
        self._size += 1
        self._evict()

    def clear(self) -> None:
        self._kept.clear()
        self._size = 0

    def _evict(self) -> None:
        while self._size > self._most_kept and len(self._kept) > 1:
            _, evicted = self._kept.popitem(last=False)
            self._size -= len(evicted) + _OVERHEAD
