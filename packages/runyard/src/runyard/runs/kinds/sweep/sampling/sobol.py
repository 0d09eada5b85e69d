"""Sobol sequence: points spread more evenly than random ones, each computed from its index alone.

S. Joe and F. Y. Kuo, Constructing Sobol sequences with better two-dimensional projections, SIAM J. Sci. Comput. 30,
2008: the primitive polynomials and the first direction numbers are theirs.
"""

import random
from collections.abc import Sequence
from functools import cache

BITS = 32

# For each dimension after the first: the inner coefficients of its polynomial as bits, and the first direction numbers,
# as many as the degree of the polynomial.
_DIMENSIONS: tuple[tuple[int, tuple[int, ...]], ...] = (
    (0, (1,)),
    (1, (1, 3)),
    (1, (1, 3, 1)),
    (2, (1, 1, 1)),
    (1, (1, 1, 3, 3)),
    (4, (1, 3, 5, 13)),
    (2, (1, 1, 5, 5, 17)),
    (4, (1, 1, 5, 5, 5)),
    (7, (1, 1, 7, 11, 19)),
    (11, (1, 1, 5, 1, 1)),
    (13, (1, 1, 1, 3, 11)),
    (14, (1, 3, 5, 5, 31)),
    (1, (1, 3, 3, 9, 7, 49)),
    (13, (1, 1, 1, 15, 21, 21)),
    (16, (1, 3, 1, 13, 27, 49)),
    (19, (1, 1, 1, 15, 7, 5)),
    (22, (1, 3, 1, 15, 13, 25)),
    (25, (1, 1, 5, 5, 19, 61)),
    (1, (1, 3, 7, 11, 23, 15, 103)),
    (4, (1, 3, 7, 13, 13, 15, 69)),
)
MOST_DIMENSIONS = len(_DIMENSIONS) + 1


def sobol_point(index: int, dimensions: int, seed: int) -> list[float]:
    """Point of that index, coordinates between 0 and 1. The seed shifts all points alike."""
    shifts = random.Random(f"sobol/{seed}")
    return [
        ((_coordinate(index, dimension) ^ shifts.getrandbits(BITS)) + 0.5) / 2**BITS for dimension in range(dimensions)
    ]


def _coordinate(index: int, dimension: int) -> int:
    gray, coordinate = index ^ (index >> 1), 0
    for bit, direction in enumerate(_directions(dimension)):
        if gray >> bit & 1:
            coordinate ^= direction
    return coordinate


@cache
def _directions(dimension: int) -> Sequence[int]:
    """Direction numbers of a dimension, scaled by 2 to the power of BITS."""
    if dimension == 0:
        return [1 << (BITS - 1 - bit) for bit in range(BITS)]
    coefficients, first = _DIMENSIONS[dimension - 1]
    degree = len(first)
    directions = [number << (BITS - 1 - bit) for bit, number in enumerate(first)]
    for bit in range(degree, BITS):
        earlier = directions[bit - degree]
        direction = earlier ^ (earlier >> degree)
        for back in range(1, degree):
            if coefficients >> (degree - 1 - back) & 1:
                direction ^= directions[bit - back]
        directions.append(direction)
    return directions
