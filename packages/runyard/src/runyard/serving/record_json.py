"""Frozen records as JSON and back, by the types of their fields."""

import dataclasses
import types
from collections.abc import Hashable, Mapping
from datetime import datetime
from enum import Enum
from functools import cache
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from runyard.errors import InvalidArgument, Json

_Record = TypeVar("_Record")
_Hint = Any


def to_json(record: Any) -> Json:
    """Only for records whose fields are texts, numbers, enums, times, mappings, tuples and other such records."""
    return {field.name: _plain(getattr(record, field.name)) for field in dataclasses.fields(record)}


def from_json(kind: type[_Record], body: object, what: str) -> _Record:
    """The record. Raises InvalidArgument that names the field, after `what`, where the body cannot be one.

    Fields that this version does not know are ignored: a newer one may have written it.
    """
    if not isinstance(body, dict):
        raise _wrong(what, "an object", body)
    hints, required = _shape(cast(Hashable, kind))
    given = {name: _value(hint, body[name], f"{what}.{name}") for name, hint in hints.items() if name in body}
    missing = [name for name in required if name not in given]
    if missing:
        raise InvalidArgument(f"{what} lacks {', '.join(missing)}.")
    return kind(**given)


@cache
def _shape(kind: Any) -> tuple[Mapping[str, _Hint], tuple[str, ...]]:
    """The types of the fields, and the names of those that have no default."""
    hints, fields, none = get_type_hints(kind), dataclasses.fields(kind), dataclasses.MISSING
    required = [field.name for field in fields if field.default is none and field.default_factory is none]
    return {field.name: hints[field.name] for field in fields}, tuple(required)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return to_json(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    return value


def _value(hint: _Hint, value: Any, what: str) -> Any:
    if hint in (Any, object):
        return value
    origin: Any = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _optional(hint, value, what)
    if origin is tuple:
        if not isinstance(value, list):
            raise _wrong(what, "a list", value)
        return tuple(_value(get_args(hint)[0], item, what) for item in value)
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, dict):
            raise _wrong(what, "an object", value)
        return {name: _value(get_args(hint)[1], item, f"{what}.{name}") for name, item in value.items()}
    if dataclasses.is_dataclass(hint):
        return from_json(cast(type, hint), value, what)
    return _single(hint, value, what)


def _optional(hint: _Hint, value: Any, what: str) -> Any:
    if value is None:
        return None
    (inner,) = (choice for choice in get_args(hint) if choice is not type(None))
    return _value(inner, value, what)


def _single(hint: type, value: Any, what: str) -> Any:
    try:
        if issubclass(hint, Enum):
            return hint(value)
        if hint is datetime:
            return datetime.fromisoformat(value)
    except (ValueError, TypeError):
        raise _wrong(what, hint.__name__, value) from None
    if hint is float and type(value) is int:
        return float(value)
    if type(value) is not hint:
        raise _wrong(what, hint.__name__, value)
    return value


def _wrong(what: str, wanted: str, value: object) -> InvalidArgument:
    """The value itself is not told: it may be a secret."""
    return InvalidArgument(f"{what} must be {wanted}, and is {type(value).__name__}.")
