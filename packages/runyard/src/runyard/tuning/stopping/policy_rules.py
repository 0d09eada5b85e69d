import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

from runyard.model.sweeps import Goal
from runyard.tuning.stopping.exact import as_written, distance, middle, plus, times
from runyard.tuning.stopping.histories import Histories


@dataclass(frozen=True)
class Finding:
    """Why a trial has to stop: the number that its best is worse than, and what that number is."""

    held_against: float | None
    words: str


class Rule(Protocol):
    def finding(self, best: float | None, interval: int, histories: Histories) -> Finding | None:
        """Compare the best of a trial at one interval; None to let it go on. An equal value is never worse."""


@dataclass(frozen=True)
class Bandit:
    """Compares with the best of all trials at the interval, with some slack: a factor or an amount."""

    slack_factor: float | None = None
    slack_amount: float | None = None

    def finding(self, best: float | None, interval: int, histories: Histories) -> Finding | None:
        scores = histories.best_standings(interval)
        top = histories.value(scores[-1])
        if top is None or histories.score(best) >= scores[-1]:
            return None
        if best is not None and not self._is_beyond_slack(best, top, histories.goal):
            return None
        slack = f"slack_amount={self.slack_amount!r}"
        if self.slack_factor is not None:
            slack = f"slack_factor={self.slack_factor!r}"
        return Finding(top, f"the best of the {len(scores)} runs at that interval, by more than {slack} allows")

    def _is_beyond_slack(self, best: float, top: float, goal: Goal) -> bool:
        own, first = as_written(best), as_written(top)
        if self.slack_factor is None:
            return distance(own, first) > as_written(self.slack_amount or 0)
        factor = plus(Decimal(1), as_written(self.slack_factor))
        return times(own, factor) < first if goal is Goal.MAXIMIZE else own > times(first, factor)


@dataclass(frozen=True)
class MedianStopping:
    """Compares with the median of the running averages of all trials up to the interval."""

    def finding(self, best: float | None, interval: int, histories: Histories) -> Finding | None:
        scores = histories.mean_standings(interval)
        low, high = scores[(len(scores) - 1) // 2], scores[len(scores) // 2]
        median = low if math.isinf(low) else middle(low, high)
        if histories.score(best) >= median:
            return None
        return Finding(
            histories.value(median), f"the median of the running averages of {len(scores)} runs up to that interval"
        )


@dataclass(frozen=True)
class TruncationSelection:
    """Stops the given percentage of all trials that have reached the interval."""

    truncation_percentage: int

    def finding(self, best: float | None, interval: int, histories: Histories) -> Finding | None:
        reached = len(histories.best_standings(interval))
        kept = reached - reached * self.truncation_percentage // 100
        setting = f"truncation_percentage={self.truncation_percentage}"
        return _below_the_kept(best, interval, histories, kept, setting)


@dataclass(frozen=True)
class SuccessiveHalving:
    """Keeps the best 1/`reduction_factor` of all trials that have reached the rung (ASHA)."""

    reduction_factor: int

    def finding(self, best: float | None, interval: int, histories: Histories) -> Finding | None:
        kept = max(1, len(histories.best_standings(interval)) // self.reduction_factor)
        setting = f"reduction_factor={self.reduction_factor}"
        return _below_the_kept(best, interval, histories, kept, setting)


def _below_the_kept(best: float | None, interval: int, histories: Histories, kept: int, setting: str) -> Finding | None:
    scores = histories.best_standings(interval)
    last_kept = scores[len(scores) - kept]
    if histories.score(best) >= last_kept:
        return None
    return Finding(
        histories.value(last_kept),
        f"the last of the best {kept} of {len(scores)} runs at that interval, which {setting} lets go on",
    )
