import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.core.errors import InvalidArgument
from runyard.core.records.sweeps import Expression, Goal, PolicyProperties
from runyard.runs.kinds.sweep.spec import checked_sweep, ignored_policy
from tests.runs.tuning.asked import PLAIN_SPACE, a_sampling, a_spec, a_sweep


def test_a_sweep_is_read_as_it_was_asked_for() -> None:
    spec = a_spec(policy={"name": "Bandit", "properties": {"slack_factor": 0.1, "evaluation_interval": 2}})
    assert (spec.sampling, spec.metric, spec.goal) == ("RANDOM", "accuracy", Goal.MAXIMIZE)
    assert spec.space["--lr"] == Expression("loguniform", (-6, -1))
    assert spec.space["--batch"] == Expression("choice", ((16, 32, 64),))
    assert (spec.max_total_runs, spec.max_concurrent_runs, spec.max_duration_minutes) == (20, 4, 60)
    assert spec.policy_properties == PolicyProperties(evaluation_interval=2, delay_evaluation=0, slack_factor=0.1)
    assert (spec.seed, spec.rule) == (7, None)


def test_what_is_left_out_is_as_in_sdk_v1() -> None:
    asked = a_sweep()
    for name in ("policy", "max_concurrent_runs", "max_duration_minutes"):
        del asked[name]
    spec = checked_sweep(asked)
    assert (spec.policy, spec.max_concurrent_runs, spec.max_duration_minutes) == ("Default", 20, 10_080)
    assert (spec.resume_from, spec.resume_child_runs) == ((), ())


def test_more_at_a_time_than_there_are_runs_is_all_at_a_time() -> None:
    assert a_spec(max_concurrent_runs=100).max_concurrent_runs == 20


def test_the_goal_is_read_in_any_case() -> None:
    assert a_spec(primary_metric={"name": "loss", "goal": "MINIMIZE"}).goal is Goal.MINIMIZE


NUL, LONG = "a\0b", "x" * 256


def nested(levels: int) -> list[Any]:
    """Lists and dictionaries in turn, that many within each other."""
    value: Any = 1
    for level in range(levels):
        value = [value] if level % 2 == 0 else {"a": value}
    return [value]


BAD_EXPRESSIONS: dict[str, tuple[Any, str]] = {
    "unknown": (["zipf", [1]], "'zipf' is not known. Known: choice, randint"),
    "no expression": (0.1, "'p' of parameter_space is no expression"),
    "a text": ("choice", "no expression"),
    "no arguments": (["uniform"], "no expression"),
    "too many": (["uniform", [0, 1, 2]], "uniform of 'p' takes min_value, max_value, got 3"),
    "reversed": (["uniform", [1, 0]], "min_value in uniform of 'p' must be below max_value, got 1 and 0"),
    "equal": (["loguniform", [2, 2]], "below max_value"),
    "reversed q": (["quniform", [1, 0, 1]], "below max_value"),
    "NaN": (["uniform", [math.nan, 1]], "min_value in uniform of 'p' must be a finite number, got nan"),
    "infinite": (["loguniform", [0, math.inf]], "max_value in loguniform of 'p' must be a finite number"),
    "a text bound": (["uniform", ["0", 1]], "must be a finite number, got '0'"),
    "a bool bound": (["uniform", [False, 1]], "must be a finite number"),
    "beyond floats": (["uniform", [0, 10**400]], "must be a finite number"),
    "too wide": (["uniform", [-1.7e308, 1.7e308]], "are too far apart"),
    "log too large": (["loguniform", [1, 1000]], "exp of them is what a run gets"),
    "lognormal too large": (["lognormal", [700, 10]], "reaches beyond the largest number"),
    "q of 0": (["quniform", [0, 1, 0]], "q in quniform of 'p' must be above 0, got 0"),
    "negative q": (["qnormal", [0, 1, -1]], "q in qnormal of 'p' must be above 0"),
    "NaN q": (["qloguniform", [0, 1, math.nan]], "q in qloguniform of 'p' must be a finite number"),
    "tiny q": (["quniform", [0, 1e300, 1e-300]], "or a larger q"),
    "sigma of 0": (["normal", [0, 0]], "sigma in normal of 'p' must be above 0, got 0"),
    "negative sigma": (["qlognormal", [0, -1, 1]], "sigma in qlognormal of 'p' must be above 0"),
    "randint of 0": (["randint", [0]], "upper in randint of 'p' must be a whole number"),
    "randint of a part": (["randint", [2.5]], "must be a whole number"),
    "empty": (["choice", [[]]], "choice of 'p' needs 1 to 10000 options, got 0"),
    "no list": (["choice", [5]], "choice of 'p' needs a list of options, got 5"),
    "huge": (["choice", [list(range(10_001))]], "needs 1 to 10000 options, got 10001"),
    "long option": (["choice", [["x" * 40_000]]], "characters; 32768 are the most"),
    "NaN option": (["choice", [[math.nan]]], "no script can be given"),
    "NUL option": (["choice", [[NUL]]], "can hold a NUL"),
    "broken text": (["choice", [["\udc80"]]], "no script can be given"),
    "deep bound": (["uniform", [nested(100_000), 1]], "must be a finite number, got a value of type list"),
    "deep option": (
        ["choice", [nested(21)]],
        "has an option of lists and dictionaries within each other",
    ),
    "bottomless option": (["choice", [nested(100_000)]], "deeper than 20 levels"),
}


@pytest.mark.parametrize("case", BAD_EXPRESSIONS)
def test_an_expression_that_cannot_be_drawn_from_is_refused(case: str) -> None:
    raw, words = BAD_EXPRESSIONS[case]
    with pytest.raises(InvalidArgument) as refused:
        a_spec(sampling=a_sampling("RANDOM", {"p": raw}))
    assert words in str(refused.value)


def test_an_option_may_be_nested_a_little() -> None:
    options = nested(20)
    assert a_spec(sampling=a_sampling("RANDOM", {"p": ["choice", [options]]})).space["p"].arguments == (tuple(options),)


@pytest.mark.parametrize("name", ["", "--", NUL, "two words", "tab\t", "line\n", LONG, "a=b", "\udc80"])
def test_a_name_that_is_no_argument_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgument, match="cannot be a parameter of parameter_space"):
        a_spec(sampling=a_sampling("RANDOM", {name: ["randint", [3]]}))


@pytest.mark.parametrize("name", ["lr", "-l", "--learning-rate", "größe", "a.b", "x" * 255])
def test_ordinary_names_are_taken(name: str) -> None:
    assert list(a_spec(sampling=a_sampling("RANDOM", {name: ["randint", [3]]})).space) == [name]


def test_two_names_that_differ_by_dashes_alone_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="'lr' and '--lr', which are one argument"):
        a_spec(sampling=a_sampling("RANDOM", {"lr": ["randint", [3]], "--lr": ["randint", [3]]}))


def test_a_command_line_that_no_system_takes_is_refused() -> None:
    space = {f"p{number}": ["choice", [["x" * 30_000]]] for number in range(40)}
    with pytest.raises(InvalidArgument, match="a command line of 1200"):
        a_spec(sampling=a_sampling("RANDOM", space))


BAD_SAMPLINGS: dict[str, tuple[Any, str]] = {
    "none": (None, "hyperparameter_sampling None is not known. Known: RANDOM, GRID, BayesianOptimization"),
    "no dictionary": (["RANDOM"], "hyperparameter_sampling must be a dictionary"),
    "unknown": (a_sampling("CMA", PLAIN_SPACE), "'CMA' is not known"),
    "an empty space": (a_sampling("RANDOM", {}), "parameter_space must have 1 to 1000 parameters, got 0"),
    "unknown rule": (a_sampling("RANDOM", PLAIN_SPACE, rule="halton"), "'halton' is not known. Known: random, sobol"),
    "a text as seed": (a_sampling("RANDOM", PLAIN_SPACE, seed="1"), "seed must be a whole number"),
    "a huge seed": (a_sampling("RANDOM", PLAIN_SPACE, seed=2**63), "seed must be a whole number"),
    "unknown property": (a_sampling("RANDOM", PLAIN_SPACE, sede=1), "no property 'sede'. It has: seed, rule"),
    "grid over a line": (
        a_sampling("GRID", PLAIN_SPACE),
        "GridParameterSampling takes choice only; the parameter '--lr' of parameter_space is a uniform",
    ),
    "Bayesian over a log": (
        a_sampling("BayesianOptimization", {"lr": ["loguniform", [-3, 0]]}),
        "BayesianParameterSampling takes choice, uniform and quniform only; the parameter 'lr'",
    ),
    "Bayesian over many options": (
        a_sampling("BayesianOptimization", {"seed": ["choice", [list(range(501))]]}),
        "BayesianParameterSampling takes up to 500 options; choice of 'seed' has 501",
    ),
    "Bayesian over tiny steps": (
        a_sampling("BayesianOptimization", {"x": ["quniform", [0, 1, 1e-20]]}),
        "q in quniform of 'x' is too small",
    ),
    "sobol in many dimensions": (
        a_sampling("RANDOM", {f"x{number}": ["uniform", [0, 1]] for number in range(22)}, rule="sobol"),
        "The rule 'sobol' of RandomParameterSampling takes up to 21 parameters, got 22",
    ),
}


@pytest.mark.parametrize("case", BAD_SAMPLINGS)
def test_a_sampling_that_cannot_work_is_refused(case: str) -> None:
    raw, words = BAD_SAMPLINGS[case]
    with pytest.raises(InvalidArgument) as refused:
        a_spec(sampling=raw)
    assert words in str(refused.value)


BAD_POLICIES: dict[str, tuple[str, dict[str, Any], str]] = {
    "unknown": ("Hyperband", {}, "The policy 'Hyperband' is not known. Known: Default, Bandit"),
    "no slack": ("Bandit", {}, "exactly one of slack_factor and slack_amount, got neither"),
    "both slacks": ("Bandit", {"slack_factor": 1, "slack_amount": 1}, "got both"),
    "negative slack": ("Bandit", {"slack_factor": -0.1}, "slack_factor of BanditPolicy must be at least 0, got -0.1"),
    "NaN slack": ("Bandit", {"slack_amount": math.nan}, "slack_amount of BanditPolicy must be a finite number"),
    "interval of 0": ("MedianStopping", {"evaluation_interval": 0}, "evaluation_interval of MedianStoppingPolicy"),
    "negative delay": ("MedianStopping", {"delay_evaluation": -1}, "delay_evaluation of MedianStoppingPolicy must be"),
    "half an interval": ("MedianStopping", {"evaluation_interval": 1.5}, "must be a whole number of at least 1"),
    "nothing goes": ("TruncationSelection", {"truncation_percentage": 0}, "a whole number from 1 to 99, got 0"),
    "all go": ("TruncationSelection", {"truncation_percentage": 100}, "from 1 to 99, got 100"),
    "no percentage": ("TruncationSelection", {}, "truncation_percentage of TruncationSelectionPolicy must be"),
    "no reduction": ("ASHA", {"reduction_factor": 1}, "reduction_factor of AshaPolicy must be a whole number"),
    "no first rung": ("ASHA", {"min_intervals": 0}, "min_intervals of AshaPolicy"),
    "no rung at all": ("ASHA", {"min_intervals": 5, "max_intervals": 5}, "max_intervals of AshaPolicy must be above"),
    "a property too many": ("Default", {"slack_factor": 1}, "NoTerminationPolicy has no property 'slack_factor'"),
    "a misspelt property": ("Bandit", {"slack_facter": 1}, "BanditPolicy has no property 'slack_facter'"),
}


@pytest.mark.parametrize("case", BAD_POLICIES)
def test_a_policy_that_cannot_work_is_refused(case: str) -> None:
    name, properties, words = BAD_POLICIES[case]
    with pytest.raises(InvalidArgument) as refused:
        a_spec(policy={"name": name, "properties": properties})
    assert words in str(refused.value)


def test_a_slack_that_was_left_at_none_was_not_given() -> None:
    properties = {"slack_factor": None, "slack_amount": 0.5}
    assert a_spec(policy={"name": "Bandit", "properties": properties}).policy_properties.slack_factor is None


METRIC = {"name": "accuracy", "goal": "maximize"}
BAD_REST: dict[str, tuple[dict[str, Any], str]] = {
    "no runs": ({"max_total_runs": 0}, "max_total_runs must be a whole number from 1 to 100000, got 0"),
    "no number of runs": ({"max_total_runs": None}, "max_total_runs"),
    "a float of runs": ({"max_total_runs": 2.0}, "max_total_runs"),
    "true runs": ({"max_total_runs": True}, "max_total_runs"),
    "too many runs": ({"max_total_runs": 10**6}, "max_total_runs"),
    "none at a time": ({"max_concurrent_runs": 0}, "max_concurrent_runs must be a whole number of at least 1"),
    "a text at a time": ({"max_concurrent_runs": "4"}, "max_concurrent_runs"),
    "no time": ({"max_duration_minutes": 0}, "max_duration_minutes must be a whole number from 1 to 10080, got 0"),
    "over a week": ({"max_duration_minutes": 10_081}, "max_duration_minutes"),
    "no metric": ({"primary_metric": None}, "primary_metric_name must be the name of a metric, got None"),
    "a blank metric": ({"primary_metric": {**METRIC, "name": " "}}, "primary_metric_name"),
    "a metric with a NUL": ({"primary_metric": {**METRIC, "name": NUL}}, "primary_metric_name"),
    "no goal": ({"primary_metric": {"name": "accuracy"}}, "primary_metric_goal None is not known"),
    "an unknown goal": ({"primary_metric": {**METRIC, "goal": "up"}}, "primary_metric_goal 'up' is not known"),
    "a key too many": ({"max_runs": 1}, "A sweep has no property 'max_runs'"),
    "six sweeps to resume": ({"resume_from": [f"HD_{n}" for n in range(6)]}, "resume_from has 6 runs, 5 are the most"),
    "one sweep twice": ({"resume_from": ["HD_1", "HD_1"]}, "resume_from names a run twice"),
    "no list of sweeps": ({"resume_from": "HD_1"}, "resume_from must be a list of runs"),
    "an id of another folder": ({"resume_child_runs": ["../../x"]}, "run_id"),
    "more to resume than runs": (
        {"resume_child_runs": ["a", "b"], "max_total_runs": 1},
        "resume_child_runs has 2 runs, 1 are the most. max_total_runs is 1.",
    ),
}


@pytest.mark.parametrize("case", BAD_REST)
def test_what_else_cannot_be_right_is_refused(case: str) -> None:
    changed, words = BAD_REST[case]
    with pytest.raises(InvalidArgument) as refused:
        a_spec(**changed)
    assert words in str(refused.value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KEYS = ["sampling", "policy", "primary_metric", "max_total_runs", "resume_from", "resume_child_runs"]


@given(key=st.sampled_from(KEYS), value=json_values)
def test_whatever_stands_in_a_place_is_taken_or_refused_in_words(key: str, value: Any) -> None:
    assert _refusal(**{key: value}).endswith(".")


@given(kind=st.sampled_from(["choice", "randint", "quniform", "qlognormal", "loguniform"]), raw=json_values)
def test_whatever_an_expression_is_given_is_taken_or_refused_in_words(kind: str, raw: Any) -> None:
    for arguments in (raw, [raw], [raw, 1], [0, raw, 1], [raw, raw, raw]):
        assert _refusal(sampling=a_sampling("RANDOM", {"p": [kind, arguments]})).endswith(".")


def _refusal(**changed: Any) -> str:
    try:
        a_spec(**changed)
    except InvalidArgument as refused:
        return str(refused)
    return "It is taken."


def test_an_error_stays_short_whatever_it_shows() -> None:
    with pytest.raises(InvalidArgument) as refused:
        a_spec(sampling=a_sampling("RANDOM", {"p": ["x" * 100_000, []]}))
    assert len(str(refused.value)) < 500


def test_a_checked_space_is_what_json_can_carry() -> None:
    asked = json.loads(json.dumps(a_sweep()))
    assert checked_sweep(asked) == a_spec()


def test_bayesian_sampling_says_that_it_leaves_a_policy_aside() -> None:
    policy = {"name": "MedianStopping", "properties": {}}
    bayesian = a_spec(sampling=a_sampling("BayesianOptimization", PLAIN_SPACE), policy=policy)
    assert "The MedianStopping policy is ignored" in str(ignored_policy(bayesian))
    assert ignored_policy(a_spec(policy=policy)) is None
    assert ignored_policy(a_spec(sampling=a_sampling("BayesianOptimization", PLAIN_SPACE))) is None
