"""A sweep: one run that tries many values of its script's arguments, each in its own child run."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from runyard.core.records.runs import RunId, RunStatus

VALUES_TAG = "hyperparameters"
"""Tag of a child run that holds the JSON of its values."""

Values = Mapping[str, Any]
"""Arguments of one trial by the user's names for them."""


class Goal(StrEnum):
    MAXIMIZE = "maximize"
    MINIMIZE = "minimize"


@dataclass(frozen=True)
class TrialStop:
    """Decision of a policy to stop a trial at one of its intervals."""

    policy: str
    interval: int
    value: float | None
    """Best value of the trial up to that interval; None if it logged no number."""
    held_against: float | None
    text: str
    """The decision as one sentence for users."""


@dataclass(frozen=True)
class Trial:
    """One set of values. It is stored before its child run is created, so each number and id is used once."""

    sweep_id: RunId
    number: int
    values: Values
    resumed_from: RunId | None = None
    stop: TrialStop | None = None

    @property
    def child_id(self) -> RunId:
        return RunId(f"{self.sweep_id}_{self.number}")


class RankedTrial(NamedTuple):
    """A trial with the result that users compare. A tuple, because one query returns ten thousand of them."""

    run_id: RunId
    number: int
    values: str
    """The JSON text of its values, as stored."""
    status: RunStatus
    """NotStarted if its run does not exist yet."""
    best: float | None
    """Best value of the primary metric; None if no number was logged."""
    intervals: int
    """How often the primary metric was logged."""
    stop: TrialStop | None = None


@dataclass(frozen=True)
class Expression:
    """The distribution of one argument: `kind` as in SDK v1 ("choice", "loguniform" ...), `arguments` in its order."""

    kind: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class PolicyProperties:
    """Properties of all policies; each policy reads its own. None means no bound."""

    evaluation_interval: int = 1
    delay_evaluation: int = 0
    slack_factor: float | None = None
    slack_amount: float | None = None
    truncation_percentage: int = 0
    reduction_factor: int = 3
    min_intervals: int = 1
    max_intervals: int | None = None


@dataclass(frozen=True)
class SweepSpec:
    """The checked definition of a sweep; `runyard.runs.kinds.sweep.spec` reads it from a run definition."""

    sampling: str
    space: Mapping[str, Expression]
    metric: str
    goal: Goal
    max_total_runs: int
    max_concurrent_runs: int
    max_duration_minutes: int
    seed: int | None = None
    rule: str | None = None
    """The rule of RandomParameterSampling: "random" or "sobol"."""
    policy: str = "Default"
    policy_properties: PolicyProperties = PolicyProperties()
    resume_from: tuple[RunId, ...] = ()
    """Sweeps whose trials this sweep starts with."""
    resume_child_runs: tuple[RunId, ...] = ()
    """Children of other sweeps to run again, with their values and their files in outputs/."""
