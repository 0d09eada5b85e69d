"""Checks of values in the definition of a sweep. Errors name the argument of SDK v1."""

import math
from collections.abc import Collection, Mapping
from typing import Any

from runyard.core.errors import InvalidArgument

LONGEST_SHOWN = 80


def shown(value: object) -> str:
    """The value for an error message, cut to LONGEST_SHOWN."""
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # nested too deeply, or a number of too many digits
        text = f"a value of type {type(value).__name__}"
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


def finite_number(value: object, argument: str) -> float:
    """The number unchanged: an int stays an int. Raises InvalidArgument."""
    if isinstance(value, int | float) and not isinstance(value, bool) and is_finite(value):
        return value
    raise InvalidArgument(f"{argument} must be a finite number, got {shown(value)}.")


def is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an int too large for a float
        return False


def mapping(value: object, argument: str) -> Mapping[str, Any]:
    """A mapping with string keys; empty for None. Raises InvalidArgument."""
    if value is None:
        return {}
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return value
    raise InvalidArgument(f"{argument} must be a dictionary with names as keys, got {shown(value)}.")


def one_of(value: object, argument: str, known: Collection[str]) -> str:
    if isinstance(value, str) and value in known:
        return value
    raise InvalidArgument(f"{argument} {shown(value)} is not known.", hint=f"Known: {', '.join(known)}.")


def no_others(given: Mapping[str, Any], owner: str, known: Collection[str]) -> None:
    others = sorted(set(given) - set(known))
    if others:
        raise InvalidArgument(
            f"{owner} has no property {shown(others[0])}.", hint=f"It has: {', '.join(known) or 'none'}."
        )
