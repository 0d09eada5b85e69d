"""Parses the definition of a sweep."""

from collections.abc import Mapping, Sequence
from typing import Any

from runyard.core.definitions.fields import whole_number
from runyard.core.definitions.run import RunDefinition
from runyard.core.definitions.sweep import SweepSpec
from runyard.errors import InvalidArgument
from runyard.model.names import check_run_id
from runyard.model.runs import RunId
from runyard.model.sweeps import Goal
from runyard.tuning.checking import mapping, no_others, one_of, shown
from runyard.tuning.policy_properties import checked_policy
from runyard.tuning.space import BAYESIAN, checked_sampling

MOST_RUNS = 100_000
MOST_MINUTES = 10_080
MOST_RESUMED_SWEEPS = 5
LONGEST_METRIC_NAME = 1_000

_KEYS = (
    "sampling",
    "policy",
    "primary_metric",
    "max_total_runs",
    "max_concurrent_runs",
    "max_duration_minutes",
    "resume_from",
    "resume_child_runs",
)


def sweep_in(definition: RunDefinition) -> SweepSpec | None:
    """Parse the sweep of a run definition; None for other runs. Raises InvalidArgument."""
    raw = definition.runyard.sweep
    return None if raw is None else checked_sweep(raw)


def checked_sweep(raw: object) -> SweepSpec:
    """Parse a sweep. Raises InvalidArgument that names the argument of SDK v1."""
    given = mapping(raw, "The sweep")
    no_others(given, "A sweep", _KEYS)
    sampling, space, drawing = checked_sampling(given.get("sampling"))
    policy, policy_properties = checked_policy(given.get("policy"))
    metric, goal = _primary_metric(given.get("primary_metric"))
    total = whole_number(given.get("max_total_runs"), "max_total_runs", at_least=1, at_most=MOST_RUNS)
    resumed = _run_ids(given.get("resume_child_runs"), "resume_child_runs", most=total, because="max_total_runs")
    return SweepSpec(
        sampling=sampling,
        space=space,
        metric=metric,
        goal=goal,
        max_total_runs=total,
        max_concurrent_runs=_concurrent(given, total),
        max_duration_minutes=_minutes(given),
        seed=drawing.seed,
        rule=drawing.rule,
        policy=policy,
        policy_properties=policy_properties,
        resume_from=_run_ids(given.get("resume_from"), "resume_from", most=MOST_RESUMED_SWEEPS),
        resume_child_runs=resumed,
    )


def ignored_policy(spec: SweepSpec) -> str | None:
    """Warning that the sampling ignores the sweep's policy; None if it does not."""
    if spec.sampling != BAYESIAN or spec.policy == "Default":
        return None
    return (
        f"The {spec.policy} policy is ignored: BayesianParameterSampling learns from runs that reach their end, "
        "so none is stopped early."
    )


def _primary_metric(raw: object) -> tuple[str, Goal]:
    metric = mapping(raw, "primary_metric")
    name, goal = metric.get("name"), metric.get("goal")
    if not isinstance(name, str) or not name.strip() or "\0" in name or len(name) > LONGEST_METRIC_NAME:
        raise InvalidArgument(
            f"primary_metric_name must be the name of a metric, got {shown(name)}.",
            hint="Give the name that the script passes to run.log.",
        )
    known = [str(each) for each in Goal]
    return name, Goal(one_of(goal.lower() if isinstance(goal, str) else goal, "primary_metric_goal", known))


def _concurrent(given: Mapping[str, Any], total: int) -> int:
    """max_concurrent_runs; by default, and at most, max_total_runs."""
    wanted = given.get("max_concurrent_runs")
    return total if wanted is None else min(total, whole_number(wanted, "max_concurrent_runs", at_least=1))


def _minutes(given: Mapping[str, Any]) -> int:
    wanted = given.get("max_duration_minutes")
    if wanted is None:
        return MOST_MINUTES
    return whole_number(wanted, "max_duration_minutes", at_least=1, at_most=MOST_MINUTES)


def _run_ids(raw: object, argument: str, *, most: int, because: str = "") -> tuple[RunId, ...]:
    if raw is None:
        return ()
    if not isinstance(raw, Sequence) or isinstance(raw, str) or not all(isinstance(each, str) for each in raw):
        raise InvalidArgument(f"{argument} must be a list of runs, got {shown(raw)}.")
    if len(raw) > most:
        why = f" {because} is {most}." if because else ""
        raise InvalidArgument(f"{argument} has {len(raw)} runs, {most} are the most.{why}")
    if len(set(raw)) < len(raw):
        raise InvalidArgument(f"{argument} names a run twice: {shown(raw)}.")
    return tuple(RunId(check_run_id(each)) for each in raw)
