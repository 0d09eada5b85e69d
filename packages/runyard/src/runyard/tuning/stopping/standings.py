from array import array
from bisect import insort
from collections import OrderedDict
from collections.abc import Callable, Iterable

MOST_KEPT = 4_000_000
"""Numbers, of eight bytes each."""
_COST_OF_ONE = 32
"""What keeping an interval costs beside its numbers, in numbers."""


class Standings:
    """How trials stand at single intervals, ascending. Those of the intervals that were asked for last are kept."""

    def __init__(self, most_kept: int = MOST_KEPT) -> None:
        self._most_kept, self._size = most_kept, 0
        self._kept: OrderedDict[int, array[float]] = OrderedDict()

    def __contains__(self, interval: int) -> bool:
        return interval in self._kept

    def __len__(self) -> int:
        return len(self._kept)

    def at(self, interval: int, read: Callable[[], Iterable[float]]) -> "array[float]":
        """`read` gives what stands at it in any order; it is called where the interval is not kept."""
        found = self._kept.get(interval)
        if found is None:
            found = self._kept[interval] = array("d", sorted(read()))
            self._size += len(found) + _COST_OF_ONE
            self._let_go()
        else:
            self._kept.move_to_end(interval)
        return found

    def add(self, interval: int, value: float) -> None:
        """One more trial has come to an interval that is kept."""
        insort(self._kept[interval], value)
        self._size += 1
        self._let_go()

    def clear(self) -> None:
        self._kept.clear()
        self._size = 0

    def _let_go(self) -> None:
        while self._size > self._most_kept and len(self._kept) > 1:
            _, gone = self._kept.popitem(last=False)
            self._size -= len(gone) + _COST_OF_ONE
