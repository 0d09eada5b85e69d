"""What the trials of a sweep have logged of its primary metric, interval by interval."""

import math
from array import array
from bisect import insort
from collections.abc import Iterator
from fractions import Fraction

from runyard.model.runs import RunId
from runyard.model.sweeps import Goal
from runyard.tuning.checking import is_finite
from runyard.tuning.exact import as_written

TrialKey = int | RunId


class History:
    """One trial's numbers. A number that is NaN or infinite is an interval and improves nothing."""

    def __init__(self, goal: Goal) -> None:
        self._better = max if goal is Goal.MAXIMIZE else min
        self._bests = array("d")
        self._means = array("d")
        self._total = Fraction(0)
        self._finite = 0

    def __len__(self) -> int:
        return len(self._bests)

    @property
    def best(self) -> float | None:
        return self.best_at(len(self)) if self._bests else None

    def append(self, value: float) -> None:
        best = self.best
        if not is_finite(value):
            self._bests.append(math.nan if best is None else best)
            self._means.append(self._means[-1] if self._means else math.nan)
            return
        value = float(value)
        self._total += as_written(value)
        self._finite += 1
        self._bests.append(value if best is None else self._better(best, value))
        self._means.append(float(self._total / self._finite))

    def best_at(self, interval: int) -> float | None:
        """The best of the first `interval` numbers; None where none of them is finite."""
        return _number(self._bests[interval - 1])

    def mean_at(self, interval: int) -> float | None:
        """The mean of the finite ones of the first `interval` numbers."""
        return _number(self._means[interval - 1])


class Histories:
    """Those of all trials of a sweep. Not safe to share between threads.

    What policies ask of an interval is kept sorted from the first time on, so that a question costs no look at each
    of ten thousand trials. Standings are ascending from the worst to the best, whichever the goal is: where it is to
    minimize, they hold the negatives. A trial without a finite number stands at minus infinity.
    """

    def __init__(self, goal: Goal) -> None:
        self.goal = goal
        self._sign = 1.0 if goal is Goal.MAXIMIZE else -1.0
        self._trials: dict[TrialKey, History] = {}
        self._best_standings: dict[int, array[float]] = {}
        self._mean_standings: dict[int, array[float]] = {}

    def __len__(self) -> int:
        return len(self._trials)

    def __iter__(self) -> Iterator[TrialKey]:
        return iter(self._trials)

    def get(self, key: TrialKey) -> History | None:
        return self._trials.get(key)

    def append(self, key: TrialKey, value: float) -> int:
        """Takes one more number of the trial and returns how many it has logged."""
        history = self._trials.setdefault(key, History(self.goal))
        history.append(value)
        interval = len(history)
        if interval in self._best_standings:
            insort(self._best_standings[interval], self.standing(history.best_at(interval)))
        if interval in self._mean_standings:
            insort(self._mean_standings[interval], self.standing(history.mean_at(interval)))
        return interval

    def drop(self, key: TrialKey) -> None:
        """Forgets what the trial has logged; quiet where it has logged nothing."""
        if self._trials.pop(key, None) is not None:
            self._best_standings.clear()
            self._mean_standings.clear()

    def standing(self, value: float | None) -> float:
        return -math.inf if value is None else self._sign * value

    def value(self, standing: float) -> float | None:
        return None if standing == -math.inf else self._sign * standing

    def best_standings(self, interval: int) -> "array[float]":
        """The bests of all trials that have reached the interval, at it."""
        if interval not in self._best_standings:
            values = (history.best_at(interval) for history in self._that_reached(interval))
            self._best_standings[interval] = array("d", sorted(map(self.standing, values)))
        return self._best_standings[interval]

    def mean_standings(self, interval: int) -> "array[float]":
        """The running means of all trials that have reached the interval, at it."""
        if interval not in self._mean_standings:
            values = (history.mean_at(interval) for history in self._that_reached(interval))
            self._mean_standings[interval] = array("d", sorted(map(self.standing, values)))
        return self._mean_standings[interval]

    def _that_reached(self, interval: int) -> Iterator[History]:
        return (history for history in self._trials.values() if len(history) >= interval)


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value
