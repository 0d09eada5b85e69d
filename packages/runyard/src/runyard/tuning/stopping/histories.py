"""What the trials of a sweep have logged of its primary metric, interval by interval."""

import math
from array import array
from collections.abc import Iterator
from decimal import Decimal

from runyard.model.runs import RunId
from runyard.model.sweeps import Goal
from runyard.tuning.checking import is_finite
from runyard.tuning.stopping.exact import as_written, plus, share
from runyard.tuning.stopping.standings import Standings

TrialKey = int | RunId


class History:
    """One trial's numbers. A number that is NaN or infinite is an interval and improves nothing."""

    def __init__(self, goal: Goal) -> None:
        self._better = max if goal is Goal.MAXIMIZE else min
        self._values = array("d")
        self._bests = array("d")
        # As far as somebody has asked for them: most policies never do.
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
        """The best of the first `interval` numbers; None where none of them is finite."""
        return _number(self._bests[interval - 1])

    def mean_at(self, interval: int) -> float | None:
        """The mean of the finite ones of the first `interval` numbers."""
        for value in self._values[len(self._means) : interval]:
            self._means.append(self._mean_with(value))
        return _number(self._means[interval - 1])

    def _mean_with(self, value: float) -> float:
        if not math.isnan(value):
            self._total = plus(self._total, as_written(value))
            self._summed += 1
        return share(self._total, self._summed) if self._summed else math.nan


class Histories:
    """Those of all trials of a sweep. Not safe to share between threads.

    What policies ask of an interval is kept sorted for the next time, so that a question costs no look at each of ten
    thousand trials; of very many intervals, those that were asked for last. Standings are ascending from the worst to
    the best, whichever the goal is: where it is to minimize, they hold the negatives. A trial without a finite number
    stands at minus infinity.
    """

    def __init__(self, goal: Goal) -> None:
        self.goal = goal
        self._sign = 1.0 if goal is Goal.MAXIMIZE else -1.0
        self._trials: dict[TrialKey, History] = {}
        self._best_standings, self._mean_standings = Standings(), Standings()

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
            self._best_standings.add(interval, self.standing(history.best_at(interval)))
        if interval in self._mean_standings:
            self._mean_standings.add(interval, self.standing(history.mean_at(interval)))
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
        return self._best_standings.at(
            interval, lambda: (self.standing(history.best_at(interval)) for history in self._that_reached(interval))
        )

    def mean_standings(self, interval: int) -> "array[float]":
        """The running means of all trials that have reached the interval, at it."""
        return self._mean_standings.at(
            interval, lambda: (self.standing(history.mean_at(interval)) for history in self._that_reached(interval))
        )

    def _that_reached(self, interval: int) -> Iterator[History]:
        return (history for history in self._trials.values() if len(history) >= interval)


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value
