"""Parses the definition of a sweep."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from runyard.core.definitions.fields import whole_number
from runyard.core.definitions.run import RunDefinition
from runyard.core.errors import InvalidArgument
from runyard.core.names import check_run_id
from runyard.core.records.runs import RunId
from runyard.core.records.sweeps import Goal, PolicyProperties, SweepSpec
from runyard.runs.kinds.sweep.fields import finite_number, mapping, no_others, one_of, shown
from runyard.runs.kinds.sweep.sampling.space import BAYESIAN, checked_sampling

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


_Given = Mapping[str, Any]


def checked_policy(raw: object) -> tuple[str, PolicyProperties]:
    """Name and properties of the policy, with the defaults of SDK v1. Raises InvalidArgument."""
    policy = mapping(raw, "policy")
    name = one_of(policy.get("name", "Default"), "The policy", _CHECKED)
    given = {
        key: value
        for key, value in mapping(policy.get("properties"), "properties of policy").items()
        if value is not None
    }
    return name, _CHECKED[name](given)


def _nothing(given: _Given) -> PolicyProperties:
    no_others(given, "NoTerminationPolicy", ())
    return PolicyProperties()


def _bandit(given: _Given) -> PolicyProperties:
    no_others(given, "BanditPolicy", ("slack_factor", "slack_amount", *_SCHEDULE))
    slack = {name: given[name] for name in ("slack_factor", "slack_amount") if name in given}
    if len(slack) != 1:
        raise InvalidArgument(
            f"BanditPolicy takes exactly one of slack_factor and slack_amount, got {'both' if slack else 'neither'}.",
            hint="slack_factor is a part of the best run's value, slack_amount a distance from it.",
        )
    for name, value in slack.items():
        if finite_number(value, f"{name} of BanditPolicy") < 0:
            raise InvalidArgument(f"{name} of BanditPolicy must be at least 0, got {shown(value)}.")
    return PolicyProperties(*_schedule(given, "BanditPolicy"), **slack)


def _median_stopping(given: _Given) -> PolicyProperties:
    no_others(given, "MedianStoppingPolicy", _SCHEDULE)
    return PolicyProperties(*_schedule(given, "MedianStoppingPolicy"))


def _truncation_selection(given: _Given) -> PolicyProperties:
    owner = "TruncationSelectionPolicy"
    no_others(given, owner, ("truncation_percentage", *_SCHEDULE))
    percentage = whole_number(
        given.get("truncation_percentage"), f"truncation_percentage of {owner}", at_least=1, at_most=99
    )
    return PolicyProperties(*_schedule(given, owner), truncation_percentage=percentage)


def _asha(given: _Given) -> PolicyProperties:
    no_others(given, "AshaPolicy", ("reduction_factor", "min_intervals", "max_intervals"))
    factor = whole_number(given.get("reduction_factor", 3), "reduction_factor of AshaPolicy", at_least=2)
    first = whole_number(given.get("min_intervals", 1), "min_intervals of AshaPolicy", at_least=1)
    if "max_intervals" not in given:
        return PolicyProperties(reduction_factor=factor, min_intervals=first)
    last = whole_number(given["max_intervals"], "max_intervals of AshaPolicy", at_least=1)
    if last <= first:
        raise InvalidArgument(
            f"max_intervals of AshaPolicy must be above min_intervals, got {last} and {first}: no run would be judged."
        )
    return PolicyProperties(reduction_factor=factor, min_intervals=first, max_intervals=last)


_SCHEDULE = ("evaluation_interval", "delay_evaluation")


def _schedule(given: _Given, owner: str) -> tuple[int, int]:
    every, delay = given.get("evaluation_interval", 1), given.get("delay_evaluation", 0)
    return (
        whole_number(every, f"evaluation_interval of {owner}", at_least=1),
        whole_number(delay, f"delay_evaluation of {owner}", at_least=0),
    )


_CHECKED: Mapping[str, Callable[[_Given], PolicyProperties]] = {
    "Default": _nothing,
    "Bandit": _bandit,
    "MedianStopping": _median_stopping,
    "TruncationSelection": _truncation_selection,
    "ASHA": _asha,
}
