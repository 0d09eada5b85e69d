import math
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from runyard.runs.kinds.sweep.sampling.observations import KnownTrial
from runyard.runs.kinds.sweep.sampling.samplers import Sampler, sampler_of
from tests.runs.tuning.asked import a_sampling, a_spec

pytestmark = pytest.mark.slow

MIXED = {
    "--lr": ["uniform", [0, 1]],
    "--layers": ["quniform", [1, 8, 1]],
    "--opt": ["choice", [["sgd", "adam", [1, 2], True, None]]],
}
SMALL = {"a": ["choice", [["x", "y", "z"]]], "b": ["quniform", [0, 1, 0.25]]}
LINE = {"x": ["uniform", [-10, 10]], "y": ["uniform", [-10, 10]]}


def bayesian(space: dict[str, Any], goal: str = "maximize", seed: int = 7) -> Sampler:
    metric = {"name": "score", "goal": goal}
    return sampler_of(a_spec(sampling=a_sampling("BayesianOptimization", space), primary_metric=metric), seed)


def tried(sampler: Sampler, trials: int, score: Callable[[dict[str, Any]], float | None]) -> list[KnownTrial]:
    known: list[KnownTrial] = []
    for number in range(trials):
        values = dict(sampler.sample(number, known) or {})
        known.append(KnownTrial(values, score(values)))
    return known


def distance(values: dict[str, Any]) -> float:
    return math.hypot(values["x"] - 3, values["y"] + 4)


def test_the_same_question_has_the_same_answer() -> None:
    known = tried(bayesian(MIXED), 15, lambda values: -abs(values["--lr"] - 0.37))
    again = bayesian(dict(reversed(MIXED.items()))).sample(15, known)
    assert bayesian(MIXED).sample(15, known) == again
    assert bayesian(MIXED, seed=8).sample(15, known) != again
    assert bayesian(MIXED).sample(16, known) != again


def test_values_are_of_the_space_and_of_plain_types() -> None:
    for known in tried(bayesian(MIXED), 25, lambda values: values["--lr"]):
        assert 0 <= known.values["--lr"] <= 1
        assert known.values["--layers"] in range(1, 9)
        assert known.values["--opt"] in MIXED["--opt"][1][0]
        assert type(known.values["--lr"]) is float
        assert type(known.values["--layers"]) is int


@pytest.mark.parametrize(("goal", "sign"), [("minimize", 1), ("maximize", -1)])
def test_it_comes_nearer_than_it_began(goal: str, sign: int) -> None:
    known = tried(bayesian(LINE, goal), 40, lambda values: sign * distance(values))
    assert min(distance(dict(each.values)) for each in known[20:]) < min(distance(dict(e.values)) for e in known[:10])
    later = sorted(distance(dict(each.values)) for each in known[20:])
    assert later[10] < 5, "half of the later ones are near"


@pytest.mark.parametrize("nothing", [None, math.nan, math.inf, -math.inf])
def test_trials_without_a_number_teach_where_not_to_go(nothing: float | None) -> None:
    known = tried(bayesian(LINE), 40, lambda values: nothing if values["x"] > 0 else -abs(values["x"] + 5))
    assert sum(each.values["x"] < 0 for each in known[20:]) >= 16


def test_a_sweep_of_which_all_failed_goes_on() -> None:
    assert len({str(each.values) for each in tried(bayesian(LINE), 20, lambda values: None)}) == 20


def test_many_that_are_asked_for_at_once_are_spread() -> None:
    sampler, known = bayesian(LINE), []
    for number in range(64):
        known.append(KnownTrial(dict(sampler.sample(number, known) or {}), is_pending=True))
    quarters = [(each.values["x"] > 0, each.values["y"] > 0) for each in known]
    assert [quarters.count((right, up)) for right in (True, False) for up in (True, False)] == [16] * 4


def test_a_small_space_is_tried_whole_before_anything_twice() -> None:
    known = tried(bayesian(SMALL), 15, lambda values: values["b"])
    assert len({str(each.values) for each in known}) == 15
    assert dict(bayesian(SMALL).sample(15, known) or {}) in [each.values for each in known]


def test_options_that_are_equal_to_python_are_told_apart() -> None:
    space = {"flag": ["choice", [[True, 1, 1.0, "1"]]]}
    assert len({repr(each.values["flag"]) for each in tried(bayesian(space), 4, lambda values: 1.0)}) == 4


def test_trials_of_another_space_teach_nothing() -> None:
    own = [KnownTrial({"x": float(place), "y": 0.0}, float(place)) for place in range(10)]
    foreign = [
        KnownTrial({"x": 1.0}, 5.0),
        KnownTrial({"x": 1.0, "y": 2.0, "z": 3.0}, 5.0),
        KnownTrial({"x": 99.0, "y": 0.0}, 5.0),
        KnownTrial({"x": "near", "y": None}, 5.0),
    ]
    assert bayesian(LINE).sample(11, [*own, *foreign]) == bayesian(LINE).sample(11, own)


def test_more_parameters_than_sobol_has_are_spread_by_chance() -> None:
    space = {f"x{place}": ["uniform", [0, 1]] for place in range(30)}
    assert len(tried(bayesian(space), 12, lambda values: values["x0"])) == 12


@pytest.mark.parametrize("count", [60, 1000])
def test_known_trials_make_no_wait(count: int) -> None:
    sampler = bayesian(MIXED)
    options = MIXED["--opt"][1][0]
    known = [
        KnownTrial({"--lr": place / 1000, "--layers": 1 + place % 8, "--opt": options[place % 5]}, math.sin(place))
        for place in range(count)
    ]
    sampler.sample(count, known)
    fastest = min(_seconds(lambda: sampler.sample(count, known)) for _ in range(5))
    assert fastest < 0.15


def test_optuna_says_nothing_and_is_loaded_only_when_it_is_asked() -> None:
    code = (
        "import sys\n"
        "from tests.runs.tuning.test_bayesian import LINE, bayesian, tried\n"
        "known = tried(bayesian(LINE), 5, lambda values: values['x'])\n"
        "assert not {'optuna', 'numpy'} & set(sys.modules)\n"
        "bayesian(LINE).sample(125, known * 25)\n"
        "assert 'optuna' in sys.modules\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def _seconds(action: Callable[[], object]) -> float:
    begun = time.process_time()
    action()
    return time.process_time() - begun
