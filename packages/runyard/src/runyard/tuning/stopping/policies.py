"""Early termination policies. A decision depends only on the numbers that the trials have logged."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from runyard.core.definitions.sweep import SweepSpec
from runyard.model.sweeps import Goal, Stop
from runyard.tuning.spec import ignored_policy
from runyard.tuning.stopping.histories import Histories, TrialKey
from runyard.tuning.stopping.policy_rules import (
    Bandit,
    Finding,
    MedianStopping,
    Rule,
    SuccessiveHalving,
    TruncationSelection,
)


class Policy(Protocol):
    """Deterministic: the same histories give the same decision."""

    def judge(self, key: TrialKey, histories: Histories) -> Stop | None:
        """Decide whether to stop the trial, which has just logged; None to let it go on."""

    def last_due(self, intervals: int) -> int:
        """Last of the first `intervals` at which a trial is judged; 0 if at none."""


@dataclass(frozen=True)
class EarlyTermination:
    name: str
    metric: str
    rule: Rule
    last_due: Callable[[int], int]

    def judge(self, key: TrialKey, histories: Histories) -> Stop | None:
        history = histories.get(key)
        if history is None or self.last_due(len(history)) != len(history):
            return None
        found = self.rule.finding(history.best, len(history), histories)
        if found is None:
            return None
        text = self._sentence(len(history), history.best, found, histories.goal)
        return Stop(self.name, len(history), history.best, found.held_against, text)

    def _sentence(self, interval: int, best: float | None, found: Finding, goal: Goal) -> str:
        side = "below" if goal is Goal.MAXIMIZE else "above"
        compared = f"its best {self.metric} so far, {best!r}, is {side}"
        if best is None:
            compared = f"it has logged no finite {self.metric} so far, which is worse than"
        return f"{self.name} policy at interval {interval}: {compared} {found.held_against!r}, {found.words}."


class NoTermination:
    def judge(self, key: TrialKey, histories: Histories) -> Stop | None:
        return None

    def last_due(self, intervals: int) -> int:
        return 0


def policy_of(spec: SweepSpec) -> Policy:
    """Policy of the sweep; one that stops nothing if its sampling ignores policies."""
    if spec.policy == "Default" or ignored_policy(spec):
        return NoTermination()
    return EarlyTermination(spec.policy, spec.metric, _rule_of(spec), _last_due_of(spec))


def doubt_of(spec: SweepSpec, stop: Stop) -> str | None:
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
