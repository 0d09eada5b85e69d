"""The sequence is held against what defines it, and against what it is for."""

import math
import random
from itertools import pairwise

import pytest

from runyard.runs.kinds.sweep.sampling.sobol import MOST_DIMENSIONS, sobol_point

POINTS = 256
EVERY_DIMENSION = range(MOST_DIMENSIONS)


def points(count: int, dimensions: int, seed: int = 1) -> list[list[float]]:
    return [sobol_point(index, dimensions, seed) for index in range(count)]


def discrepancy(at: list[list[float]]) -> float:
    """The L2 star discrepancy, by Warnock's formula."""
    count, dimensions = len(at), len(at[0])
    middle = sum(math.prod((1 - x * x) / 2 for x in point) for point in at)
    pairs = sum(math.prod(1 - max(x, y) for x, y in zip(one, other, strict=True)) for one in at for other in at)
    return math.sqrt(3.0**-dimensions - 2 * middle / count + pairs / count**2)


@pytest.mark.parametrize("dimensions", [1, 2, 5])
def test_points_are_spread_far_more_evenly_than_random_ones(dimensions: int) -> None:
    chance = random.Random(1)
    scattered = [[chance.random() for _ in range(dimensions)] for _ in range(POINTS)]
    assert discrepancy(points(POINTS, dimensions)) < discrepancy(scattered) / 2


@pytest.mark.parametrize("dimension", EVERY_DIMENSION)
@pytest.mark.parametrize("seed", [0, 12345])
def test_each_dimension_has_one_point_in_each_interval(dimension: int, seed: int) -> None:
    """Holds only where the direction numbers are odd and below their power of two."""
    cells = [int(point[dimension] * POINTS) for point in points(POINTS, MOST_DIMENSIONS, seed)]
    assert sorted(cells) == list(range(POINTS))


@pytest.mark.parametrize(("one", "other"), list(pairwise(range(8))))
def test_neighbouring_dimensions_fill_the_square(one: int, other: int) -> None:
    cells = {(int(p[one] * 8), int(p[other] * 8)) for p in points(POINTS, 8)}
    assert len(cells) == 64


def test_all_dimensions_differ() -> None:
    assert len({tuple(point[d] for point in points(POINTS, MOST_DIMENSIONS)) for d in EVERY_DIMENSION}) == 21


def test_the_first_points_are_the_published_ones_but_for_the_shift() -> None:
    published = [(0.0, 0.0, 0.0), (0.5, 0.5, 0.5), (0.75, 0.25, 0.25), (0.25, 0.75, 0.75), (0.375, 0.375, 0.625)]
    shift = [int(x * 2**32) for x in sobol_point(0, 3, seed=9)]
    for index, expected in enumerate(published):
        bits = [int(x * 2**32) for x in sobol_point(index, 3, seed=9)]
        assert [(bit ^ by) / 2**32 for bit, by in zip(bits, shift, strict=True)] == list(expected)


def test_another_seed_is_another_shift() -> None:
    assert sobol_point(3, 4, seed=1) == sobol_point(3, 4, seed=1)
    assert sobol_point(3, 4, seed=1) != sobol_point(3, 4, seed=2)


def test_no_coordinate_is_an_end() -> None:
    assert all(0 < x < 1 for point in points(POINTS, MOST_DIMENSIONS, seed=3) for x in point)
