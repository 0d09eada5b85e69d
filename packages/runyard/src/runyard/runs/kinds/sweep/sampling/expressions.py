"""Expressions of a parameter space (SDK v1: choice, uniform, ...), by their inverse distribution functions.

Each turns a number between 0 and 1 into a value, so any source of uniform numbers can be used.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from runyard.core.definitions.fields import whole_number
from runyard.core.errors import InvalidArgument
from runyard.core.records.sweeps import Expression
from runyard.runs.kinds.sweep.fields import finite_number, is_finite, one_of, shown

MOST_OPTIONS = 10_000
LONGEST_OPTION = 32_768
MOST_NESTED = 20
LARGEST_RANDINT = 2**53
_LOWEST, _HIGHEST = 2.0**-54, 1 - 2.0**-53


@dataclass(frozen=True)
class ExpressionKind:
    """One expression: names of its arguments, inverse distribution function, further checks."""

    parameters: tuple[str, ...]
    at: Callable[[float, Sequence[Any]], Any]
    check: Callable[[str, Sequence[Any]], None] = lambda name, arguments: None


def checked_expression(name: str, raw: object) -> Expression:
    """Parse an expression. Raises InvalidArgument that names the expression and its argument."""
    if not isinstance(raw, Sequence) or isinstance(raw, str) or len(raw) != 2 or not _is_list(raw[1]):
        raise InvalidArgument(
            f"The parameter {shown(name)} of parameter_space is no expression: {shown(raw)}.",
            hint=f"Give one of {', '.join(KINDS)}.",
        )
    kind = one_of(raw[0], f"The expression of the parameter {shown(name)} in parameter_space,", KINDS)
    arguments = tuple(raw[1])
    about = f"{kind} of {shown(name)}"
    names = KINDS[kind].parameters
    if len(arguments) != len(names):
        raise InvalidArgument(f"{about} takes {', '.join(names)}, got {len(arguments)} arguments.")
    KINDS[kind].check(about, arguments)
    expression = Expression(kind, (tuple(arguments[0]),) if kind == "choice" else arguments)
    _check_finite(about, expression)
    return expression


def value_at(expression: Expression, quantile: float) -> Any:
    """Value at that quantile, between 0 and 1, of the distribution; for a choice, that option."""
    return KINDS[expression.kind].at(min(max(quantile, _LOWEST), _HIGHEST), expression.arguments)


def options_of(expression: Expression) -> Sequence[Any]:
    """Options of a choice."""
    options: Sequence[Any] = expression.arguments[0]
    return options


def without_repeats(choice: Expression) -> Expression:
    """The choice without repeated options; 1, 1.0 and True are different."""
    return Expression(choice.kind, (tuple({json.dumps(option): option for option in options_of(choice)}.values()),))


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple)


def _check_finite(about: str, expression: Expression) -> None:
    if expression.kind == "choice":
        return
    try:
        is_within = all(is_finite(value_at(expression, quantile)) for quantile in (_LOWEST, _HIGHEST))
    except OverflowError:
        is_within = False
    if not is_within:
        raise InvalidArgument(
            f"{about} reaches beyond the largest number, with {shown(list(expression.arguments))}.",
            hint="Its loguniform and lognormal forms take exponents: exp of them is what a run gets."
            if "log" in expression.kind
            else "Give smaller bounds, or a larger q.",
        )


def _check_choice(about: str, arguments: Sequence[Any]) -> None:
    options = arguments[0]
    if not _is_list(options):
        raise InvalidArgument(f"{about} needs a list of options, got {shown(options)}.")
    if not 1 <= len(options) <= MOST_OPTIONS:
        raise InvalidArgument(f"{about} needs 1 to {MOST_OPTIONS} options, got {len(options)}.")
    for option in options:
        _check_option(about, option)


def _check_option(about: str, option: object) -> None:
    if _is_deeper_than(MOST_NESTED, option):
        raise InvalidArgument(
            f"{about} has an option of lists and dictionaries within each other, deeper than {MOST_NESTED} levels.",
            hint="Put it into a file of the source_directory and choose between the names of files.",
        )
    try:
        text = json.dumps(option, ensure_ascii=False, allow_nan=False)
        text.encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidArgument(
            f"{about} has the option {shown(option)}, which no script can be given: {error}.",
            hint="Options are texts, finite numbers, True, False, None, and lists and dictionaries of these.",
        ) from error
    if isinstance(option, str) and "\0" in option:
        raise InvalidArgument(f"{about} has the option {shown(option)}: no argument of a script can hold a NUL.")
    if len(text) > LONGEST_OPTION:
        raise InvalidArgument(
            f"{about} has an option of {len(text)} characters; {LONGEST_OPTION} are the most.",
            hint="Put it into a file of the source_directory and choose between the names of files.",
        )


def _is_deeper_than(levels: int, value: Any) -> bool:
    if not isinstance(value, Mapping | list | tuple):
        return False
    inner = value.values() if isinstance(value, Mapping) else value
    return levels == 0 or any(_is_deeper_than(levels - 1, one) for one in inner)


def _check_randint(about: str, arguments: Sequence[Any]) -> None:
    whole_number(arguments[0], f"upper in {about}", at_least=1, at_most=LARGEST_RANDINT)


def _check_bounds(about: str, arguments: Sequence[Any]) -> None:
    low = finite_number(arguments[0], f"min_value in {about}")
    high = finite_number(arguments[1], f"max_value in {about}")
    if low >= high:
        raise InvalidArgument(f"min_value in {about} must be below max_value, got {shown(low)} and {shown(high)}.")
    if not is_finite(high - low):
        raise InvalidArgument(f"min_value and max_value in {about} are too far apart: {shown(low)} and {shown(high)}.")
    _check_q(about, arguments)


def _check_normal(about: str, arguments: Sequence[Any]) -> None:
    finite_number(arguments[0], f"mu in {about}")
    if finite_number(arguments[1], f"sigma in {about}") <= 0:
        raise InvalidArgument(f"sigma in {about} must be above 0, got {shown(arguments[1])}.")
    _check_q(about, arguments)


def _check_q(about: str, arguments: Sequence[Any]) -> None:
    if len(arguments) > 2 and finite_number(arguments[2], f"q in {about}") <= 0:
        raise InvalidArgument(f"q in {about} must be above 0, got {shown(arguments[2])}.")


def _uniform(quantile: float, arguments: Sequence[Any]) -> float:
    low, high = float(arguments[0]), float(arguments[1])
    return min(max(low + quantile * (high - low), low), high)


def _normal(quantile: float, arguments: Sequence[Any]) -> float:
    return float(arguments[0] + arguments[1] * NormalDist().inv_cdf(quantile))


def _exp_of(draw: Callable[[float, Sequence[Any]], float]) -> Callable[[float, Sequence[Any]], float]:
    return lambda quantile, arguments: math.exp(draw(quantile, arguments))


def _steps_of(draw: Callable[[float, Sequence[Any]], float]) -> Callable[[float, Sequence[Any]], float]:
    def stepped(quantile: float, arguments: Sequence[Any]) -> float:
        value: float = round(draw(quantile, arguments) / arguments[2]) * arguments[2]
        return value

    return stepped


def _option(quantile: float, arguments: Sequence[Any]) -> Any:
    return arguments[0][_index(quantile, len(arguments[0]))]


def _index(quantile: float, count: int) -> int:
    return min(int(quantile * count), count - 1)


_BOUNDS, _NORMAL_PARAMETERS = ("min_value", "max_value"), ("mu", "sigma")

KINDS: Mapping[str, ExpressionKind] = {
    "choice": ExpressionKind(("options",), _option, _check_choice),
    "randint": ExpressionKind(("upper",), lambda quantile, arguments: _index(quantile, arguments[0]), _check_randint),
    "uniform": ExpressionKind(_BOUNDS, _uniform, _check_bounds),
    "quniform": ExpressionKind((*_BOUNDS, "q"), _steps_of(_uniform), _check_bounds),
    "loguniform": ExpressionKind(_BOUNDS, _exp_of(_uniform), _check_bounds),
    "qloguniform": ExpressionKind((*_BOUNDS, "q"), _steps_of(_exp_of(_uniform)), _check_bounds),
    "normal": ExpressionKind(_NORMAL_PARAMETERS, _normal, _check_normal),
    "qnormal": ExpressionKind((*_NORMAL_PARAMETERS, "q"), _steps_of(_normal), _check_normal),
    "lognormal": ExpressionKind(_NORMAL_PARAMETERS, _exp_of(_normal), _check_normal),
    "qlognormal": ExpressionKind((*_NORMAL_PARAMETERS, "q"), _steps_of(_exp_of(_normal)), _check_normal),
}
