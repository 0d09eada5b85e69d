import json
import re
from collections.abc import Container, Sequence
from decimal import Decimal
from typing import Any

from runyard.core.records.sweeps import Values

_NEGATIVE_NUMBER = re.compile(r"-(\d|\.\d)")


def option_name(name: str) -> str:
    """Command-line option of a sampled parameter: `--name`, unless it begins with a dash."""
    return name if name.startswith("-") else f"--{name}"


def child_arguments(base: Sequence[object], values: Values) -> list[str]:
    """Arguments of a child: `base` without earlier values of the sampled options, then the sampled values."""
    sampled = {option_name(name): argument_text(value) for name, value in values.items()}
    return _without(base, sampled) + [part for pair in sampled.items() for part in pair]


def argument_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple | dict):
        return json.dumps(value)
    text = str(value)
    if isinstance(value, float) and value < 0 and "e" in text:
        # argparse before Python 3.13 takes "-1e-05" for the name of an option.
        return format(Decimal(text), "f")
    return text


def _without(base: Sequence[object], names: Container[str]) -> list[str]:
    kept: list[str] = []
    is_value_of_dropped = False
    for argument in map(str, base):
        if is_value_of_dropped and not _is_option(argument):
            is_value_of_dropped = False
            continue
        name, equals, _ = argument.partition("=")
        is_value_of_dropped = name in names and not equals
        if name not in names:
            kept.append(argument)
    return kept


def _is_option(argument: str) -> bool:
    return argument.startswith("-") and argument != "-" and not _NEGATIVE_NUMBER.match(argument)
