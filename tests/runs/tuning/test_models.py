"""What both models of a space must do: the Gaussian process while little is known, Optuna's estimator afterwards."""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import pytest

from runyard.runs.kinds.sweep.sampling import gaussian_process, parzen
from runyard.runs.kinds.sweep.sampling.axes import Axes, Point, axes_of
from runyard.runs.kinds.sweep.sampling.observations import ModelPoint
from tests.runs.tuning.asked import a_sampling, a_spec

Model = Callable[[Axes, Sequence[ModelPoint], int], Iterator[Point]]


def axes(space: dict[str, Any]) -> Axes:
    return axes_of(a_spec(sampling=a_sampling("BayesianOptimization", space)).space)


SQUARE = axes({"x": ["uniform", [-10, 10]], "y": ["uniform", [-10, 10]]})
MIXED = axes({"a": ["choice", [["u", "v", "w"]]], "b": ["quniform", [-6, 6, 2]], "c": ["uniform", [1e-9, 2e-9]]})
ONE = axes({"a": ["choice", [["only"]]], "b": ["uniform", [0, 1]]})


def loss(point: Point) -> float:
    return math.hypot(point[0] - 3, point[1] + 4)


def observed(count: int) -> list[ModelPoint]:
    points = [(10 * math.sin(7 * position), 10 * math.cos(11 * position)) for position in range(count)]
    return [ModelPoint(point, loss(point)) for point in points]


@pytest.fixture(params=[gaussian_process, parzen], ids=["process", "estimator"])
def model(request: pytest.FixtureRequest) -> Model:
    proposed: Model = request.param.proposed_points
    return proposed


def test_the_seed_decides(model: Model) -> None:
    first, again, other = (next(model(SQUARE, observed(20), seed)) for seed in (1, 1, 2))
    assert first == again != other


def test_proposals_are_near_what_did_well(model: Model) -> None:
    proposed = [next(model(SQUARE, observed(40), seed)) for seed in range(10)]
    assert sum(loss(point) < 5 for point in proposed) >= 8


@pytest.mark.parametrize("space", [MIXED, ONE])
def test_proposals_are_on_the_axes(model: Model, space: Axes) -> None:
    points = [
        space.point_at([(position * 0.377 + axis / 3) % 1 for axis in range(len(space.axes))]) for position in range(12)
    ]
    known = [ModelPoint(point, float(sum(point))) for point in points]
    for point in islice(model(space, known, 3), 8):
        for axis, position in zip(space.axes, point, strict=True):
            assert axis.low <= position <= axis.high
            assert axis.position_of(axis.value_at(position)) == position


def test_what_is_being_tried_is_kept_away_from(model: Model) -> None:
    moved = 0
    for seed in range(10):
        free = next(model(SQUARE, observed(20), seed))
        pending = [ModelPoint(free, None, is_pending=True)] * 3
        moved += next(model(SQUARE, [*observed(20), *pending], seed)) != free
    assert moved == 10


def test_one_proposal_after_another_is_another(model: Model) -> None:
    assert len(set(islice(model(SQUARE, observed(20), 5), 6))) == 6


def test_what_ended_without_a_number_is_avoided(model: Model) -> None:
    known = [ModelPoint(each.point, None if each.point[0] > 0 else abs(each.point[0] + 5)) for each in observed(40)]
    assert sum(next(model(SQUARE, known, seed))[0] < 0 for seed in range(10)) >= 9


@pytest.mark.parametrize("same", [None, 0.0, 5.0, -1e308, 1e308, 5e-324])
def test_losses_that_are_all_alike_are_no_trouble(model: Model, same: float | None) -> None:
    known = [ModelPoint(each.point, same) for each in observed(12)]
    assert all(math.isfinite(position) for position in next(model(SQUARE, known, 1)))


def test_losses_as_far_apart_as_numbers_are_no_trouble(model: Model) -> None:
    extreme = [1.7e308, -1.7e308, 0.0, 1e-300]
    known = [ModelPoint(each.point, extreme[position % 4]) for position, each in enumerate(observed(12))]
    assert all(math.isfinite(position) for position in next(model(SQUARE, known, 1)))


def test_the_same_point_again_and_again_is_no_trouble(model: Model) -> None:
    known = [ModelPoint((1.0, 1.0), float(position)) for position in range(30)]
    assert len(next(model(SQUARE, known, 1))) == 2


def test_the_part_of_good_trials_is_the_one_we_chose() -> None:
    """It is set by a name that is Optuna's own: this says when that is gone."""
    from optuna.samplers import TPESampler

    assert "_gamma" in vars(TPESampler())
