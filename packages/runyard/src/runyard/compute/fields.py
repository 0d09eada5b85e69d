"""Settings of a compute kind as a frozen dataclass: read from a compute target's body or from the service's variables,
and shown as options of the command line."""

import dataclasses
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import Any, TypeVar, cast, get_args, get_type_hints

from runyard.core.errors import InvalidArgument

F = TypeVar("F")
_NAMES = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
_WORDS = {"1": True, "true": True, "0": False, "false": False}


@dataclass(frozen=True)
class NoFields:
    """For a kind that has nothing to set."""


@dataclass(frozen=True)
class Option:
    """One field of a kind's settings."""

    name: str
    type: type
    """str, int, float or bool."""
    help: str
    default: Any
    """None where there is no default."""
    is_required: bool


def option(help: str, default: Any = dataclasses.MISSING, *, is_required: bool = False) -> Any:
    """Declare a field, as in `address: str = option("HOST:PORT of the head.")`.

    One without a default, or with `is_required`, must be given when a cluster is attached.
    """
    return dataclasses.field(default=default, metadata={"help": help, "is_required": is_required})


def options_of(fields: type[Any]) -> Sequence[Option]:
    """Options of a settings class. Its fields are of type str, int, float or bool, or one of these or None."""
    return _options_of(cast(Hashable, fields))


@cache
def _options_of(fields: Any) -> Sequence[Option]:
    hints = get_type_hints(fields)
    found = []
    for field in dataclasses.fields(fields):
        has_default = field.default is not dataclasses.MISSING
        found.append(
            Option(
                field.name,
                _type_without_none(hints[field.name]),
                field.metadata.get("help", ""),
                field.default if has_default else None,
                not has_default or bool(field.metadata.get("is_required")),
            )
        )
    return tuple(found)


def read_body(fields: type[F], given: Mapping[str, Any]) -> F:
    """Make settings from the values of a request. Raises InvalidArgument for a wrong, unknown or missing field."""
    options = {one.name: one for one in options_of(fields)}
    for name, value in given.items():
        if name not in options:
            known = ", ".join(options) or "none"
            raise InvalidArgument(f"{str(name)[:80]!r} is no setting of this compute kind. Known: {known}.")
        if value is not None and not _has_type(options[name].type, value):
            raise InvalidArgument(f"{name} must be {_NAMES[options[name].type]}, got {ascii(value)[:80]}.")
    return _construct(fields, {name: value for name, value in given.items() if value is not None})


def read_variables(fields: type[F], prefix: str, variables: Mapping[str, str]) -> F:
    """Make settings from environment variables: the prefix, then the field's name in capitals. Empty means not set.

    Raises InvalidArgument with the names of the variables.
    """
    given = {}
    for one in options_of(fields):
        name = prefix + one.name.upper()
        if text := variables.get(name, "").strip():
            given[name] = (one.name, _parsed(name, one.type, text))
    try:
        return _construct(fields, dict(given.values()))
    except InvalidArgument as error:
        raise InvalidArgument(f"{', '.join(given) or prefix + '*'}: {error.problem}", hint=error.hint) from None


def _construct(fields: type[F], values: Mapping[str, Any]) -> F:
    missing = [
        field.name
        for field in dataclasses.fields(fields)  # type: ignore[arg-type]
        if field.default is dataclasses.MISSING and field.name not in values
    ]
    if missing:
        raise InvalidArgument(f"{missing[0]} is missing.")
    return fields(**values)


def _type_without_none(hint: Any) -> type:
    """Type of a field, without None."""
    if isinstance(hint, UnionType):
        (hint,) = (each for each in get_args(hint) if each is not type(None))
    if hint not in _NAMES:
        raise TypeError(f"Settings of a compute kind are of type str, int, float or bool, not {hint}.")
    found: type = hint
    return found


def _has_type(wanted: type, value: Any) -> bool:
    if isinstance(value, bool):
        return wanted is bool
    return isinstance(value, int | float if wanted is float else wanted) and value == value


def _parsed(name: str, wanted: type, text: str) -> Any:
    if wanted is str:
        return text
    try:
        return _WORDS[text.lower()] if wanted is bool else wanted(text)
    except (KeyError, ValueError):
        raise InvalidArgument(f"{name} must be {_NAMES[wanted]}, got {text[:80]!r}.") from None
