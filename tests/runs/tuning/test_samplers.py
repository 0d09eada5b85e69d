import itertools
import subprocess
import sys
from typing import Any

import pytest

from runyard.core.records.runs import RunId
from runyard.runs.kinds.sweep.sampling.samplers import most_trials, sampler_of, seed_of
from tests.runs.tuning.asked import SPACE, a_sampling, a_spec

ALL = {
    "choice": ["choice", [["sgd", "adam"]]],
    "randint": ["randint", [6]],
    "uniform": ["uniform", [0, 1]],
    "quniform": ["quniform", [0, 10, 2]],
    "loguniform": ["loguniform", [-3, 0]],
    "qloguniform": ["qloguniform", [0, 3, 1]],
    "normal": ["normal", [0, 1]],
    "qnormal": ["qnormal", [0, 5, 1]],
    "lognormal": ["lognormal", [0, 1]],
    "qlognormal": ["qlognormal", [0, 1, 1]],
}
GRID = {"--units": ["choice", [[8, 16]]], "--act": ["choice", [["relu", "tanh", "elu"]]], "x": ["choice", [[1.5]]]}


def sampled(sampling: dict[str, Any], numbers: range, seed: int = 7, **changed: Any) -> list[Any]:
    sampler = sampler_of(a_spec(sampling=sampling, **changed), seed)
    return [sampler.sample(number, ()) for number in numbers]


@pytest.mark.parametrize("rule", ["random", "sobol"])
def test_a_trial_is_the_same_whoever_asks_and_in_any_order(rule: str) -> None:
    sampling = a_sampling("RANDOM", ALL, rule=rule)
    forwards = sampled(sampling, range(20))
    assert sampled(sampling, range(19, -1, -1)) == forwards[::-1]
    assert sampled(a_sampling("RANDOM", dict(reversed(ALL.items())), rule=rule), range(20)) == forwards
    assert sampled(sampling, range(20), seed=8) != forwards


@pytest.mark.parametrize("rule", ["random", "sobol"])
def test_trials_differ_and_hold_every_parameter_in_its_order(rule: str) -> None:
    trials = sampled(a_sampling("RANDOM", ALL, rule=rule), range(50))
    assert len({trial["uniform"] for trial in trials}) == 50
    assert all(list(trial) == list(ALL) for trial in trials)
    assert {trial["choice"] for trial in trials} == {"sgd", "adam"}


def test_another_process_samples_the_same() -> None:
    code = (
        "from tests.runs.tuning.test_samplers import ALL, sampled; from tests.runs.tuning.asked import a_sampling\n"
        "print(sampled(a_sampling('RANDOM', ALL), range(3)))"
    )
    asked = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert asked.stdout.strip() == repr(sampled(a_sampling("RANDOM", ALL), range(3)))


def test_a_grid_is_every_combination_once_the_last_parameter_quickest() -> None:
    trials = sampled(a_sampling("GRID", GRID), range(6))
    assert [tuple(trial.values()) for trial in trials] == list(
        itertools.product([8, 16], ["relu", "tanh", "elu"], [1.5])
    )
    assert sampled(a_sampling("GRID", GRID), range(6, 8)) == [None, None]


def test_an_option_that_is_given_twice_is_tried_once() -> None:
    spec = a_spec(sampling=a_sampling("GRID", {"p": ["choice", [[1, True, 1, 1.0, [2], [2]]]]}))
    sampler = sampler_of(spec, 1)
    assert most_trials(spec) == 4
    assert [repr((sampler.sample(number, ()) or {})["p"]) for number in range(4)] == ["1", "True", "1.0", "[2]"]
    assert sampler.sample(4, ()) is None


def test_a_grid_has_as_many_trials_as_combinations_or_as_were_asked_for() -> None:
    assert most_trials(a_spec(sampling=a_sampling("GRID", GRID))) == 6
    assert most_trials(a_spec(sampling=a_sampling("GRID", GRID), max_total_runs=4)) == 4
    assert most_trials(a_spec(sampling=a_sampling("RANDOM", SPACE))) == 20


def test_a_huge_grid_is_never_listed() -> None:
    space = {f"p{place}": ["choice", [list(range(10))]] for place in range(40)}
    (trial,) = sampled(a_sampling("GRID", space), range(99_999, 100_000))
    assert [trial[f"p{place}"] for place in range(33, 40)] == [0, 0, 9, 9, 9, 9, 9]
    assert most_trials(a_spec(sampling=a_sampling("GRID", space))) == 20


def test_children_that_begin_again_take_nothing_from_a_grid() -> None:
    resumed = {"resume_child_runs": ["HD_1_4", "HD_1_7"]}
    trials = sampled(a_sampling("GRID", GRID), range(2, 9), **resumed)
    assert trials == [*sampled(a_sampling("GRID", GRID), range(6)), None]
    assert most_trials(a_spec(sampling=a_sampling("GRID", GRID), **resumed)) == 8


def test_the_seed_is_the_one_given_or_made_of_the_id() -> None:
    given = a_spec(sampling=a_sampling("RANDOM", SPACE, seed=0))
    assert seed_of(given, RunId("HD_1")) == 0
    free = a_spec(sampling=a_sampling("RANDOM", SPACE))
    assert seed_of(free, RunId("HD_1")) == seed_of(free, RunId("HD_1")) != seed_of(free, RunId("HD_2"))
