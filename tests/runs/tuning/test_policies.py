import math
import statistics
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.core.records.sweeps import Goal, SweepSpec, TrialStop
from runyard.runs.kinds.sweep.early_stopping.histories import Histories
from runyard.runs.kinds.sweep.early_stopping.policies import policy_of
from tests.runs.tuning.asked import PLAIN_SPACE, a_sampling, a_spec
from tests.runs.tuning.golden_policies import GOLDEN, Logged


def spec_of(policy: str, properties: dict[str, Any], goal: str) -> SweepSpec:
    metric = {"name": "accuracy", "goal": goal}
    return a_spec(policy={"name": policy, "properties": properties}, primary_metric=metric)


def played(spec: SweepSpec, logged: Logged) -> dict[str, TrialStop]:
    """Each trial logs as it is written, until it is stopped."""
    policy, histories = policy_of(spec), Histories(spec.goal)
    stops: dict[str, TrialStop] = {}
    keys = {trial: place for place, trial in enumerate(sorted({trial for line in logged for trial, _ in line}))}
    for trial, value in (entry for line in logged for entry in line):
        if trial in stops:
            continue
        histories.append(keys[trial], value)
        stop = policy.judge(keys[trial], histories)
        if stop:
            stops[trial] = stop
    return stops


@pytest.mark.parametrize("name", GOLDEN)
def test_exactly_those_are_stopped_that_are_so_by_hand(name: str) -> None:
    golden = GOLDEN[name]
    stops = played(spec_of(golden.policy, golden.properties, golden.goal), golden.logged)
    found = {(trial, stop.interval, stop.value, stop.held_against) for trial, stop in stops.items()}
    assert found == set(golden.stopped)
    assert {stop.policy for stop in stops.values()} <= {golden.policy}


SENTENCES = {
    "bandit, factor, maximize": (
        "Bandit policy at interval 1: its best accuracy so far, 0.4, is below 0.6, the best of the 3 runs at that "
        "interval, by more than slack_factor=0.2 allows."
    ),
    "bandit, amount, minimize": (
        "Bandit policy at interval 1: its best accuracy so far, 0.31, is above 0.1, the best of the 3 runs at that "
        "interval, by more than slack_amount=0.2 allows."
    ),
    "bandit, no number": (
        "Bandit policy at interval 1: it has logged no finite accuracy so far, which is worse than 0.5, the best of "
        "the 3 runs at that interval, by more than slack_factor=100 allows."
    ),
    "median, maximize": (
        "MedianStopping policy at interval 1: its best accuracy so far, 0.3, is below 0.4, the median of the running "
        "averages of 2 runs up to that interval."
    ),
    "truncation, maximize": (
        "TruncationSelection policy at interval 1: its best accuracy so far, 0.1, is below 0.2, the last of the best 4 "
        "of 5 runs at that interval, which truncation_percentage=20 lets go on."
    ),
    "asha, minimize": (
        "ASHA policy at interval 2: its best accuracy so far, 5.0, is above 4.0, the last of the best 2 of 4 runs at "
        "that interval, which reduction_factor=2 lets go on."
    ),
}


@pytest.mark.parametrize("name", SENTENCES)
def test_a_decision_is_said_in_a_sentence(name: str) -> None:
    golden = GOLDEN[name]
    stops = played(spec_of(golden.policy, golden.properties, golden.goal), golden.logged)
    assert next(iter(stops.values())).text == SENTENCES[name]


def test_bayesian_sampling_stops_nobody() -> None:
    sampling = a_sampling("BayesianOptimization", PLAIN_SPACE)
    policy = {"name": "Bandit", "properties": {"slack_amount": 0}}
    assert played(a_spec(sampling=sampling, policy=policy), [[("a", 1.0), ("b", 0.0)]]) == {}


def test_a_trial_that_has_logged_nothing_is_not_judged() -> None:
    assert policy_of(spec_of("MedianStopping", {}, "maximize")).judge(3, Histories(Goal.MAXIMIZE)) is None


EVERY: dict[str, tuple[str, dict[str, Any]]] = {
    "factor": ("Bandit", {"slack_factor": 0.5}),
    "amount": ("Bandit", {"slack_amount": 0.25, "evaluation_interval": 2}),
    "median": ("MedianStopping", {}),
    "truncation": ("TruncationSelection", {"truncation_percentage": 40, "delay_evaluation": 2}),
    "asha": ("ASHA", {"reduction_factor": 2}),
}
numbers = st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.7, 0.9, 1.0, -0.4, math.nan, math.inf])
entries = st.lists(st.tuples(st.integers(0, 5), numbers), max_size=40)
Series = dict[int, list[float]]


@pytest.mark.parametrize("name", EVERY)
@given(entries=entries, goal=st.sampled_from(["maximize", "minimize"]))
def test_a_judgement_is_the_one_that_the_whole_series_give(
    name: str, goal: str, entries: list[tuple[int, float]]
) -> None:
    """Against the rule written down the long way, and with histories read anew, as after a restart."""
    spec = spec_of(*EVERY[name], goal)
    policy, histories, series = policy_of(spec), Histories(spec.goal), dict[int, list[float]]()
    for trial, value in entries:
        series.setdefault(trial, []).append(value)
        histories.append(trial, value)
        stop = policy.judge(trial, histories)
        assert (stop is not None) == _is_stopped(name, goal, series, trial)
        assert policy.judge(trial, _histories(spec.goal, series)) == stop


def _histories(goal: Goal, series: Series) -> Histories:
    histories = Histories(goal)
    for trial, values in series.items():
        for value in values:
            histories.append(trial, value)
    return histories


def _is_stopped(name: str, goal: str, series: Series, trial: int) -> bool:
    interval = len(series[trial])
    if name == "amount" and interval % 2:
        return False
    if name == "truncation" and interval < 2:
        return False
    if name == "asha" and interval not in (1, 2, 4, 8, 16, 32):
        return False
    sign = 1 if goal == "maximize" else -1
    reached = {
        key: [_exact(value, sign) for value in values[:interval]]
        for key, values in series.items()
        if len(values) >= interval
    }
    bests = {key: max(values) for key, values in reached.items()}
    own = bests[trial]
    better = sum(best > own for best in bests.values())
    return _LONG_WAY[name](own, better, list(bests.values()), list(reached.values()), sign)


_NONE = Fraction(-(10**9))


def _exact(value: float, sign: int) -> Fraction:
    return Fraction(repr(value)) * sign if math.isfinite(value) else _NONE


def _mean(values: list[Fraction]) -> Fraction:
    finite = [value for value in values if value != _NONE]
    return Fraction(sum(finite), len(finite)) if finite else _NONE


def _median_is_above(own: Fraction, reached: list[list[Fraction]]) -> bool:
    means = sorted(map(_mean, reached))
    middle = means[(len(means) - 1) // 2]
    return own < (_NONE if middle == _NONE else Fraction(statistics.median(means)))


def _is_beyond_factor(own: Fraction, top: Fraction, sign: int) -> bool:
    if top == _NONE or own == top:
        return False
    share = Fraction("1.5")
    return own == _NONE or (own * share < top if sign > 0 else -own > -top * share)


_LONG_WAY: dict[str, Callable[[Fraction, int, list[Fraction], list[list[Fraction]], int], bool]] = {
    "factor": lambda own, better, bests, reached, sign: _is_beyond_factor(own, max(bests), sign),
    "amount": lambda own, better, bests, reached, sign: max(bests) - own > Fraction("0.25"),
    "median": lambda own, better, bests, reached, sign: _median_is_above(own, reached),
    "truncation": lambda own, better, bests, reached, sign: (
        len(bests) * 40 // 100 >= 1 and better >= len(bests) - len(bests) * 40 // 100
    ),
    "asha": lambda own, better, bests, reached, sign: better >= max(1, len(bests) // 2),
}


@pytest.mark.parametrize("name", EVERY)
def test_a_judgement_among_ten_thousand_trials_takes_a_moment(name: str) -> None:
    spec = spec_of(*EVERY[name], "maximize")
    policy, histories = policy_of(spec), Histories(spec.goal)
    for trial in range(10_000):
        for interval in range(4):
            histories.append(trial, math.sin(trial * 7 + interval))
    policy.judge(0, histories)
    fastest = min(_seconds(policy, histories, trial) for trial in range(100, 110))
    assert fastest < 0.001


def _seconds(policy: Any, histories: Histories, trial: int) -> float:
    begun = time.perf_counter()
    policy.judge(trial, histories)
    return time.perf_counter() - begun
