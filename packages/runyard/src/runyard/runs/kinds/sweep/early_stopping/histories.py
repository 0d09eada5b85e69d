"""Numbers that the trials of a sweep have logged for its primary metric, by interval."""

import math
from array import array
from bisect import insort
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from decimal import Context, Decimal

from runyard.core.records.runs import RunId
from runyard.core.records.sweeps import Goal
from runyard.runs.kinds.sweep.fields import is_finite

TrialKey = int | RunId


class History:
    """Numbers of one trial. NaN and infinity count as an interval but never as a best."""

    def __init__(self, goal: Goal) -> None:
        self._better = max if goal is Goal.MAXIMIZE else min
        self._values = array("d")
        self._bests = array("d")
        # Filled on demand: most policies never ask for means.
        self._means = array("d")
        self._total = Decimal(0)
        self._summed = 0

    def __len__(self) -> int:
        return len(self._values)

    @property
    def best(self) -> float | None:
        return _number(self._bests[-1]) if self._bests else None

    def append(self, value: float) -> None:
        number = float(value) if is_finite(value) else math.nan
        best = self.best
        self._values.append(number)
        if math.isnan(number):
            self._bests.append(math.nan if best is None else best)
        else:
            self._bests.append(number if best is None else self._better(best, number))

    def best_at(self, interval: int) -> float | None:
        """Best of the first `interval` numbers; None if none is finite."""
        return _number(self._bests[interval - 1])

    def mean_at(self, interval: int) -> float | None:
        """Mean of the finite ones among the first `interval` numbers; None if none is."""
        for value in self._values[len(self._means) : interval]:
            self._means.append(self._mean_with(value))
        return _number(self._means[interval - 1])

    def _mean_with(self, value: float) -> float:
        if not math.isnan(value):
            self._total = plus(self._total, as_written(value))
            self._summed += 1
        return share(self._total, self._summed) if self._summed else math.nan


class Histories:
    """Histories of all trials of a sweep. Not thread-safe.

    The scores of an interval are kept sorted, so that a policy need not read ten thousand trials at each call; of very
    many intervals, only those used last. Scores ascend from worst to best for both goals: for minimize they are the
    negated values. A trial without a finite number has the score minus infinity.
    """

    def __init__(self, goal: Goal) -> None:
        self.goal = goal
        self._sign = 1.0 if goal is Goal.MAXIMIZE else -1.0
        self._trials: dict[TrialKey, History] = {}
        self._best_scores, self._mean_scores = IntervalScores(), IntervalScores()

    def __len__(self) -> int:
        return len(self._trials)

    def __iter__(self) -> Iterator[TrialKey]:
        return iter(self._trials)

    def get(self, key: TrialKey) -> History | None:
        return self._trials.get(key)

    def append(self, key: TrialKey, value: float) -> int:
        """Add a number of the trial; return how many it has logged."""
        history = self._trials.setdefault(key, History(self.goal))
        history.append(value)
        interval = len(history)
        if interval in self._best_scores:
            self._best_scores.add(interval, self.score(history.best_at(interval)))
        if interval in self._mean_scores:
            self._mean_scores.add(interval, self.score(history.mean_at(interval)))
        return interval

    def drop(self, key: TrialKey) -> None:
        """Remove all numbers of the trial, if any."""
        if self._trials.pop(key, None) is not None:
            self._best_scores.clear()
            self._mean_scores.clear()

    def score(self, value: float | None) -> float:
        return -math.inf if value is None else self._sign * value

    def value(self, score: float) -> float | None:
        return None if score == -math.inf else self._sign * score

    def best_scores(self, interval: int) -> "array[float]":
        """Sorted scores of the bests, at the interval, of all trials that have reached it."""
        return self._best_scores.at(
            interval, lambda: (self.score(history.best_at(interval)) for history in self._that_reached(interval))
        )

    def mean_scores(self, interval: int) -> "array[float]":
        """Sorted scores of the running means, at the interval, of all trials that have reached it."""
        return self._mean_scores.at(
            interval, lambda: (self.score(history.mean_at(interval)) for history in self._that_reached(interval))
        )

    def _that_reached(self, interval: int) -> Iterator[History]:
        return (history for history in self._trials.values() if len(history) >= interval)


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


MOST_KEPT = 4_000_000
"""Numbers of eight bytes each."""
_OVERHEAD = 32
"""Overhead of a kept interval, counted in numbers."""


class IntervalScores:
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


# Decimal arithmetic, so that 0.9 - 0.2 is 0.7 and a tie calculated by hand is a tie here.
# 800 digits hold the exact sum of any two floats, from 1e308 down to 5e-324.
_EXACT = Context(prec=800)
_ROUNDED = Context(prec=50)


def as_written(value: float) -> Decimal:
    return Decimal(repr(value))


def plus(one: Decimal, other: Decimal) -> Decimal:
    return _EXACT.add(one, other)


def times(one: Decimal, other: Decimal) -> Decimal:
    return _EXACT.multiply(one, other)


def distance(one: Decimal, other: Decimal) -> Decimal:
    return abs(_EXACT.subtract(one, other))


def share(total: Decimal, count: int) -> float:
    """`total` divided by `count`."""
    return float(_ROUNDED.divide(total, count))


def middle(low: float, high: float) -> float:
    return low if low == high else share(plus(as_written(low), as_written(high)), 2)
