import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.runs.kinds.sweep.sampling.expressions import KINDS, checked_expression, value_at

quantiles = st.floats(0, 1)
EXAMPLES: dict[str, list[Any]] = {
    "choice": [["a", 2, 0.5, None, [1, 2]]],
    "randint": [6],
    "uniform": [-2, 3],
    "quniform": [1, 100, 5],
    "loguniform": [-5, -1],
    "qloguniform": [0, 5, 0.5],
    "normal": [10, 3],
    "qnormal": [10, 3, 2],
    "lognormal": [0, 0.5],
    "qlognormal": [0, 1, 0.1],
}


def drawn(kind: str, quantile: float) -> Any:
    return value_at(checked_expression("p", [kind, EXAMPLES[kind]]), quantile)


def test_every_expression_has_an_example_here() -> None:
    assert set(EXAMPLES) == set(KINDS)


@pytest.mark.parametrize("kind", sorted(set(EXAMPLES) - {"choice"}))
@given(first=quantiles, second=quantiles)
def test_values_are_finite_and_rise_with_the_quantile(kind: str, first: float, second: float) -> None:
    low, high = drawn(kind, min(first, second)), drawn(kind, max(first, second))
    assert math.isfinite(low)
    assert low <= high


@given(quantile=quantiles)
def test_a_choice_is_one_of_its_options_as_it_was_given(quantile: float) -> None:
    assert drawn("choice", quantile) in EXAMPLES["choice"][0]


@pytest.mark.parametrize("kind", EXAMPLES)
def test_the_same_quantile_is_the_same_value_of_a_plain_type(kind: str) -> None:
    assert drawn(kind, 0.3) == drawn(kind, 0.3)
    assert type(drawn(kind, 0.3)) in (int, float, str, list, type(None))


@given(quantile=quantiles)
def test_uniform_stays_between_its_bounds(quantile: float) -> None:
    assert -2 <= drawn("uniform", quantile) <= 3


@given(quantile=quantiles)
def test_loguniform_is_exp_of_a_uniform(quantile: float) -> None:
    assert math.exp(-5) <= drawn("loguniform", quantile) <= math.exp(-1)
    uniform = value_at(checked_expression("p", ["uniform", [-5, -1]]), quantile)
    assert drawn("loguniform", quantile) == math.exp(uniform)


@pytest.mark.parametrize(
    ("kind", "middle"),
    [
        ("uniform", 0.5),
        ("quniform", 50),
        ("loguniform", math.exp(-3)),
        ("normal", 10.0),
        ("qnormal", 10),
        ("lognormal", 1.0),
        ("qlognormal", 1.0),
    ],
)
def test_half_of_all_draws_are_below_the_middle(kind: str, middle: float) -> None:
    assert drawn(kind, 0.5) == pytest.approx(middle)


@pytest.mark.parametrize("kind", ["quniform", "qloguniform", "qnormal", "qlognormal"])
@given(quantile=quantiles)
def test_a_quantised_value_is_the_rounded_multiple_of_q(kind: str, quantile: float) -> None:
    q = EXAMPLES[kind][-1]
    exact = value_at(checked_expression("p", [kind[1:], EXAMPLES[kind][:-1]]), quantile)
    assert drawn(kind, quantile) == round(exact / q) * q


def test_steps_of_a_whole_q_are_whole_so_that_a_script_can_read_them_as_such() -> None:
    assert [type(drawn("quniform", part / 7)) for part in range(7)] == [int] * 7


def test_randint_is_each_number_below_its_bound() -> None:
    assert {drawn("randint", part / 60) for part in range(61)} == {0, 1, 2, 3, 4, 5}
