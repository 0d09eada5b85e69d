"""Early termination policies. A decision depends only on the numbers that the trials have logged."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

from runyard.core.records.sweeps import Goal, SweepSpec, TrialStop
from runyard.runs.kinds.sweep.early_stopping.histories import (
    Histories,
    TrialKey,
    as_written,
    distance,
    middle,
    plus,
    times,
)
from runyard.runs.kinds.sweep.spec import ignored_policy


class Policy(Protocol):
    """Deterministic: the same histories give the same decision."""

    def judge(self, key: TrialKey, histories: Histories) -> TrialStop | None:
        """Decide whether to stop the trial, which has just logged; None to let it go on."""

    def last_due(self, intervals: int) -> int:
        """Last of the first `intervals` at which a trial is judged; 0 if at none."""


@dataclass(frozen=True)
class RuleFinding:
    """Why a trial has to stop: the number that its best is worse than, and what that number is."""

    held_against: float | None
    words: str


class Rule(Protocol):
    def finding(self, best: float | None, interval: int, histories: Histories) -> RuleFinding | None:
        """Compare the best of a trial at one interval; None to let it go on. An equal value is never worse."""


@dataclass(frozen=True)
class EarlyTermination:
    name: str
    metric: str
    rule: Rule
    last_due: Callable[[int], int]

    def judge(self, key: TrialKey, histories: Histories) -> TrialStop | None:
        history = histories.get(key)
        if history is None or self.last_due(len(history)) != len(history):
            return None
        found = self.rule.finding(history.best, len(history), histories)
        if found is None:
            return None
        text = self._sentence(len(history), history.best, found, histories.goal)
        return TrialStop(self.name, len(history), history.best, found.held_against, text)

    def _sentence(self, interval: int, best: float | None, found: RuleFinding, goal: Goal) -> str:
        side = "below" if goal is Goal.MAXIMIZE else "above"
        compared = f"its best {self.metric} so far, {best!r}, is {side}"
        if best is None:
            compared = f"it has logged no finite {self.metric} so far, which is worse than"
        return f"{self.name} policy at interval {interval}: {compared} {found.held_against!r}, {found.words}."


class NoTermination:
    def judge(self, key: TrialKey, histories: Histories) -> TrialStop | None:
        return None

    def last_due(self, intervals: int) -> int:
        return 0


def policy_of(spec: SweepSpec) -> Policy:
    """Policy of the sweep; one that stops nothing if its sampling ignores policies."""
    if spec.policy == "Default" or ignored_policy(spec):
        return NoTermination()
    return EarlyTermination(spec.policy, spec.metric, _rule_of(spec), _last_due_of(spec))


def policy_warning(spec: SweepSpec, stop: TrialStop) -> str | None:
    """Warning about a decision that follows the policy but is probably not intended; None otherwise."""
    factor = spec.policy_properties.slack_factor
    if factor is None or stop.value is None or stop.held_against is None or stop.held_against > 0:
        return None
    return (
        f"slack_factor={factor!r} is a part of the best {spec.metric}, and of a best that is 0 or below it allows no "
        "slack: all runs but the best ones are stopped. Use slack_amount for a metric that can be negative."
    )


def _rule_of(spec: SweepSpec) -> Rule:
    properties = spec.policy_properties
    if spec.policy == "Bandit":
        return Bandit(properties.slack_factor, properties.slack_amount)
    if spec.policy == "TruncationSelection":
        return TruncationSelection(properties.truncation_percentage)
    if spec.policy == "ASHA":
        return SuccessiveHalving(properties.reduction_factor)
    return MedianStopping()


def _last_due_of(spec: SweepSpec) -> Callable[[int], int]:
    properties = spec.policy_properties
    if spec.policy == "ASHA":
        return _Rungs(properties.min_intervals, properties.reduction_factor, properties.max_intervals)
    return _Regular(properties.evaluation_interval, properties.delay_evaluation)


@dataclass(frozen=True)
class _Regular:
    """Every `every` intervals, from `delay` on."""

    every: int
    delay: int

    def __call__(self, intervals: int) -> int:
        last = intervals - intervals % self.every
        return last if last >= self.delay else 0


@dataclass(frozen=True)
class _Rungs:
    """Interval `first`, then each `factor` times the one before; below `last`."""

    first: int
    factor: int
    last: int | None

    def __call__(self, intervals: int) -> int:
        reached, rung = 0, self.first
        while rung <= intervals and (self.last is None or rung < self.last):
            reached, rung = rung, rung * self.factor
        return reached


@dataclass(frozen=True)
class Bandit:
    """Compares with the best of all trials at the interval, with some slack: a factor or an amount."""

    slack_factor: float | None = None
    slack_amount: float | None = None

    def finding(self, best: float | None, interval: int, histories: Histories) -> RuleFinding | None:
        scores = histories.best_scores(interval)
        top = histories.value(scores[-1])
        if top is None or histories.score(best) >= scores[-1]:
            return None
        if best is not None and not self._is_beyond_slack(best, top, histories.goal):
            return None
        slack = f"slack_amount={self.slack_amount!r}"
        if self.slack_factor is not None:
            slack = f"slack_factor={self.slack_factor!r}"
        return RuleFinding(top, f"the best of the {len(scores)} runs at that interval, by more than {slack} allows")

    def _is_beyond_slack(self, best: float, top: float, goal: Goal) -> bool:
        own, first = as_written(best), as_written(top)
        if self.slack_factor is None:
            return distance(own, first) > as_written(self.slack_amount or 0)
        factor = plus(Decimal(1), as_written(self.slack_factor))
        return times(own, factor) < first if goal is Goal.MAXIMIZE else own > times(first, factor)


@dataclass(frozen=True)
class MedianStopping:
    """Compares with the median of the running averages of all trials up to the interval."""

    def finding(self, best: float | None, interval: int, histories: Histories) -> RuleFinding | None:
        scores = histories.mean_scores(interval)
        low, high = scores[(len(scores) - 1) // 2], scores[len(scores) // 2]
        median = low if math.isinf(low) else middle(low, high)
        if histories.score(best) >= median:
            return None
        return RuleFinding(
            histories.value(median), f"the median of the running averages of {len(scores)} runs up to that interval"
        )


@dataclass(frozen=True)
class TruncationSelection:
    """Stops the given percentage of all trials that have reached the interval."""

    truncation_percentage: int

    def finding(self, best: float | None, interval: int, histories: Histories) -> RuleFinding | None:
        reached = len(histories.best_scores(interval))
        kept = reached - reached * self.truncation_percentage // 100
        setting = f"truncation_percentage={self.truncation_percentage}"
        return _below_the_kept(best, interval, histories, kept, setting)


@dataclass(frozen=True)
class SuccessiveHalving:
    """Keeps the best 1/`reduction_factor` of all trials that have reached the rung (ASHA)."""

    reduction_factor: int

    def finding(self, best: float | None, interval: int, histories: Histories) -> RuleFinding | None:
        kept = max(1, len(histories.best_scores(interval)) // self.reduction_factor)
        setting = f"reduction_factor={self.reduction_factor}"
        return _below_the_kept(best, interval, histories, kept, setting)


def _below_the_kept(
    best: float | None, interval: int, histories: Histories, kept: int, setting: str
) -> RuleFinding | None:
    scores = histories.best_scores(interval)
    last_kept = scores[len(scores) - kept]
    if histories.score(best) >= last_kept:
        return None
    return RuleFinding(
        histories.value(last_kept),
        f"the last of the best {kept} of {len(scores)} runs at that interval, which {setting} lets go on",
    )
