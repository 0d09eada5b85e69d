from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runyard.model.runs import RunId
from runyard.model.sweeps import Goal


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
    """The checked definition of a sweep. `runyard.tuning.spec` reads it from `runyard.sweep` of a run definition."""

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
