"""What each policy holds a trial's best against, at one interval. Being equal is never being worse."""

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

from runyard.model.sweeps import Goal
from runyard.tuning.stopping.exact import as_written, distance, middle, plus, times
from runyard.tuning.stopping.histories import Histories


@dataclass(frozen=True)
class Finding:
    """That a trial is worse than it may be: than which number, and what that number is, in words."""

    held_against: float | None
    words: str


class Rule(Protocol):
    def finding(self, best: float | None, interval: int, histories: Histories) -> Finding | None:
        """None where the trial with that best goes on."""


@dataclass(frozen=True)
class Bandit:
    """The best of all trials at the interval, with some slack: a part of it, or an amount."""

    slack_factor: float | None = None
    slack_amount: float | None = None

    def finding(self, best: float | None, interval: int, histories: Histories) -> Finding | None:
        standings = histories.best_standings(interval)
        top = histories.value(standings[-1])
        if top is None or histories.standing(best) >= standings[-1]:
            return None
        if best is not None and not self._is_beyond_slack(best, top, histories.goal):
            return None
        slack = f"slack_amount={self.slack_amount!r}"
        if self.slack_factor is not None:
            slack = f"slack_factor={self.slack_factor!r}"
        return Finding(top, f"the best of the {len(standings)} runs at that interval, by more than {slack} allows")

    def _is_beyond_slack(self, best: float, top: float, goal: Goal) -> bool:
        own, first = as_written(best), as_written(top)
        if self.slack_factor is None:
            return distance(own, first) > as_written(self.slack_amount or 0)
        factor = plus(Decimal(1), as_written(self.slack_factor))
        return times(own, factor) < first if goal is Goal.MAXIMIZE else own > times(first, factor)


@dataclass(frozen=True)
class MedianStopping:
    """The median of all trials' running averages up to the interval."""

    def finding(self, best: float | None, interval: int, histories: Histories) -> Finding | None:
        standings = histories.mean_standings(interval)
        low, high = standings[(len(standings) - 1) // 2], standings[len(standings) // 2]
        median = low if math.isinf(low) else middle(low, high)
        if histories.standing(best) >= median:
            return None
        return Finding(
            histories.value(median), f"the median of the running averages of {len(standings)} runs up to that interval"
        )


@dataclass(frozen=True)
class TruncationSelection:
    """The worst that stays when the given part of all trials that have reached the interval goes."""

    truncation_percentage: int

    def finding(self, best: float | None, interval: int, histories: Histories) -> Finding | None:
        reached = len(histories.best_standings(interval))
        staying = reached - reached * self.truncation_percentage // 100
        setting = f"truncation_percentage={self.truncation_percentage}"
        return _below_those_staying(best, interval, histories, staying, setting)


@dataclass(frozen=True)
class SuccessiveHalving:
    """The worst of the best part, one of `reduction_factor`, of all trials that have reached the rung."""

    reduction_factor: int

    def finding(self, best: float | None, interval: int, histories: Histories) -> Finding | None:
        staying = max(1, len(histories.best_standings(interval)) // self.reduction_factor)
        setting = f"reduction_factor={self.reduction_factor}"
        return _below_those_staying(best, interval, histories, staying, setting)


def _below_those_staying(
    best: float | None, interval: int, histories: Histories, staying: int, setting: str
) -> Finding | None:
    standings = histories.best_standings(interval)
    last_to_stay = standings[len(standings) - staying]
    if histories.standing(best) >= last_to_stay:
        return None
    return Finding(
        histories.value(last_to_stay),
        f"the last of the best {staying} of {len(standings)} runs at that interval, which {setting} lets go on",
    )
