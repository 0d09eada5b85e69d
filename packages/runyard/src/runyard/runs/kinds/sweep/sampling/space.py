"""Parses the parameter space of a sweep and its sampling, and checks that they fit together."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runyard.core.definitions.fields import is_whole
from runyard.core.errors import InvalidArgument
from runyard.core.records.sweeps import Expression
from runyard.runs.kinds.sweep.fields import mapping, no_others, one_of, shown
from runyard.runs.kinds.sweep.sampling.arguments import argument_text, option_name
from runyard.runs.kinds.sweep.sampling.expressions import checked_expression, options_of, value_at, without_repeats
from runyard.runs.kinds.sweep.sampling.sobol import MOST_DIMENSIONS

RANDOM, GRID, BAYESIAN = "RANDOM", "GRID", "BayesianOptimization"
RULES = ("random", "sobol")
MOST_PARAMETERS = 1_000
LONGEST_NAME = 255
LONGEST_COMMAND_LINE = 1_000_000
MOST_BAYESIAN_OPTIONS = 500
MOST_BAYESIAN_STEPS = 2**53

Space = Mapping[str, Expression]

_TITLES = {
    RANDOM: "RandomParameterSampling",
    GRID: "GridParameterSampling",
    BAYESIAN: "BayesianParameterSampling",
}
_DRAWN_FROM = {GRID: ("choice",), BAYESIAN: ("choice", "uniform", "quniform")}


@dataclass(frozen=True)
class SamplingProperties:
    seed: int | None = None
    rule: str | None = None


def checked_sampling(raw: object) -> tuple[str, Space, SamplingProperties]:
    """Name of the sampling, parameter space and properties. Raises InvalidArgument."""
    given = mapping(raw, "hyperparameter_sampling")
    name = one_of(given.get("name"), "The hyperparameter_sampling", _TITLES)
    drawing = _drawing(name, given.get("properties"))
    space = _space(mapping(given.get("parameter_space"), "parameter_space"))
    for parameter, expression in space.items():
        _check_supported(name, parameter, expression)
    if name == GRID:
        space = {parameter: without_repeats(expression) for parameter, expression in space.items()}
    if drawing.rule == "sobol" and len(space) > MOST_DIMENSIONS:
        raise InvalidArgument(
            f"The rule 'sobol' of RandomParameterSampling takes up to {MOST_DIMENSIONS} parameters, got {len(space)}.",
            hint="Use the rule 'random'.",
        )
    return name, space, drawing


def _drawing(sampling: str, raw: object) -> SamplingProperties:
    given = {key: value for key, value in mapping(raw, "properties").items() if value is not None}
    no_others(given, _TITLES[sampling], ("seed", "rule") if sampling == RANDOM else ("seed",))
    seed = given.get("seed", 0)
    if not is_whole(seed) or abs(seed) >= 2**63:
        raise InvalidArgument(f"seed must be a whole number of at most 63 bits, got {shown(seed)}.")
    rule = one_of(given["rule"], "The rule of RandomParameterSampling,", RULES) if "rule" in given else None
    return SamplingProperties(seed if "seed" in given else None, rule)


def _space(raw: Mapping[str, Any]) -> Space:
    if not 1 <= len(raw) <= MOST_PARAMETERS:
        raise InvalidArgument(f"parameter_space must have 1 to {MOST_PARAMETERS} parameters, got {len(raw)}.")
    bare: dict[str, str] = {}
    for name in raw:
        _check_name(name)
        other = bare.setdefault(name.lstrip("-"), name)
        if other != name:
            raise InvalidArgument(
                f"parameter_space has {shown(other)} and {shown(name)}, which are one argument of the script.",
                hint="Leave one of them out.",
            )
    space = {name: checked_expression(name, expression) for name, expression in raw.items()}
    length = sum(len(option_name(name)) + _longest(expression) for name, expression in space.items())
    if length > LONGEST_COMMAND_LINE:
        raise InvalidArgument(
            f"The values of parameter_space can make a command line of {length} characters; "
            f"{LONGEST_COMMAND_LINE} are the most."
        )
    return space


def _check_name(name: str) -> None:
    if not name.strip("-") or not name.isprintable() or " " in name or "=" in name or len(name) > LONGEST_NAME:
        raise InvalidArgument(
            f"{shown(name)} cannot be a parameter of parameter_space.",
            hint=f"Give the name of an argument of the script, such as '--learning-rate': 1 to {LONGEST_NAME} "
            "characters without spaces, control characters and '='.",
        )


def _longest(expression: Expression) -> int:
    if expression.kind == "choice":
        return max(len(argument_text(option)) for option in options_of(expression))
    return 0


def _check_supported(sampling: str, name: str, expression: Expression) -> None:
    drawn_from = _DRAWN_FROM.get(sampling, (expression.kind,))
    if expression.kind not in drawn_from:
        raise InvalidArgument(
            f"{_TITLES[sampling]} takes {_listed(drawn_from)} only; the parameter {shown(name)} of parameter_space is "
            f"a {expression.kind}.",
            hint="Change the expression, or use RandomParameterSampling, which takes all of them.",
        )
    if sampling == BAYESIAN:
        _check_size(name, expression)


def _check_size(name: str, expression: Expression) -> None:
    """Raise InvalidArgument for a parameter with too many values for the Bayesian model."""
    if expression.kind == "choice" and len(options_of(expression)) > MOST_BAYESIAN_OPTIONS:
        raise InvalidArgument(
            f"BayesianParameterSampling takes up to {MOST_BAYESIAN_OPTIONS} options; choice of {shown(name)} has "
            f"{len(options_of(expression))}.",
            hint="Use quniform for numbers, or RandomParameterSampling.",
        )
    if expression.kind == "quniform":
        low, high = (abs(value_at(expression, end) / expression.arguments[2]) for end in (0.0, 1.0))
        if max(low, high) > MOST_BAYESIAN_STEPS:
            raise InvalidArgument(f"q in quniform of {shown(name)} is too small for its bounds.", hint="Use uniform.")


def _listed(kinds: tuple[str, ...]) -> str:
    return " and ".join(filter(None, (", ".join(kinds[:-1]), kinds[-1])))
