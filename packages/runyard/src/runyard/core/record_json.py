"""Converts frozen records to JSON and back by the types of their fields: plans, data for nodes, web service specs."""

import dataclasses
import types
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from datetime import datetime
from enum import Enum
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from runyard.core.errors import InvalidArgument, Json

_Record = TypeVar("_Record")
_Read = Callable[[Any, str], Any]
"""Reads a field from (value, its name for errors). Raises InvalidArgument."""
_PLAIN = frozenset({str, int, float, bool, type(None)})
_Hint = Any


def to_json(record: Any, rows: Collection[type] = ()) -> Json:
    """Convert a record whose fields are strings, numbers, enums, times, mappings, sequences and other such records.

    Records of the types in `rows` become lists of their values, which is shorter if there are many.
    """
    names, values = _written(cast(Hashable, type(record)))
    return {
        name: value if type(value) in _PLAIN else _plain(value, rows)
        for name, value in zip(names, values(record), strict=True)
    }


def from_json(kind: type[_Record], body: object, what: str) -> _Record:
    """Rebuild a record. Raises InvalidArgument naming the wrong field, with `what` in front.

    Unknown fields are ignored: a newer version may have written them. A list holds the record's values in order.
    """
    return cast(_Record, _reader(cast(Hashable, kind))(body, what))


def prepare_reader(kind: type) -> None:
    """Build the readers that `from_json` needs for this record type. A process that forks calls it once, which saves
    each child a millisecond."""
    left, seen = [kind], set[type]()
    while left:
        if (record := left.pop()) not in seen:
            seen.add(record)
            _reader(cast(Hashable, record))
            left += [inner for hint in get_type_hints(record).values() for inner in _records_in(hint)]


def _records_in(hint: _Hint) -> list[type]:
    inner = [record for argument in get_args(hint) for record in _records_in(argument)]
    return [*inner, hint] if dataclasses.is_dataclass(hint) and isinstance(hint, type) else inner


@cache
def _written(kind: Any) -> tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]]:
    """Field names of a record type, and a function that returns their values."""
    names = tuple(field.name for field in dataclasses.fields(kind))
    get: Any = attrgetter(*names)
    return names, get if len(names) > 1 else lambda record: (get(record),)


def _plain(value: Any, rows: Collection[type]) -> Any:
    kind = type(value)
    if kind is tuple or kind is list:
        if value and type(value[0]) in rows:
            values = _written(cast(Hashable, type(value[0])))[1]
            return [list(values(item)) for item in value]
        return [item if type(item) in _PLAIN else _plain(item, rows) for item in value]
    if kind is dict or isinstance(value, Mapping):
        return {str(name): item if type(item) in _PLAIN else _plain(item, rows) for name, item in value.items()}
    if dataclasses.is_dataclass(kind):
        return to_json(value, rows)
    if isinstance(value, Enum):
        return value.value
    return value.isoformat() if isinstance(value, datetime) else value


@cache
def _reader(kind: Any) -> _Read:
    """Reader of a record type. Cached: inspecting types takes longer than reading."""
    fields, none, hints = dataclasses.fields(kind), dataclasses.MISSING, get_type_hints(kind)
    readers = {field.name: _of_hint(hints[field.name]) for field in fields}
    required = [field.name for field in fields if field.default is none and field.default_factory is none]
    row = _row_reader(kind, tuple(readers.items()), len(required))

    def read(body: Any, what: str) -> Any:
        if type(body) is list or type(body) is tuple:
            return row(body, what)
        if not isinstance(body, Mapping):
            raise _wrong(what, "an object", body)
        given = {name: reader(body[name], f"{what}.{name}") for name, reader in readers.items() if name in body}
        missing = [name for name in required if name not in given]
        if missing:
            raise InvalidArgument(f"{what} lacks {', '.join(missing)}.")
        return kind(**given)

    return read


def _row_reader(kind: Any, readers: Sequence[tuple[str, _Read]], required: int) -> _Read:
    """Reader of a row. Rows with the same types as a checked one are not checked again."""
    right: set[tuple[type, ...]] = set()

    def read(row: Any, what: str) -> Any:
        values = row[: len(readers)]
        shape = tuple(map(type, values))
        if shape in right:
            return kind(*values)
        if len(values) < required:
            raise InvalidArgument(f"{what} lacks {readers[len(values)][0]}.")
        read = [one(value, f"{what}.{name}") for (name, one), value in zip(readers, values, strict=False)]
        if _PLAIN.issuperset(shape) and tuple(map(type, read)) == shape:
            right.add(shape)
        return kind(*read)

    return read


def _of_hint(hint: _Hint) -> _Read:
    hint = getattr(hint, "__supertype__", hint)  # of a NewType
    if hint in (Any, object):
        return lambda value, what: value
    origin: Any = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _optional(hint)
    if origin is tuple and get_args(hint)[-1] is not ...:
        return _fixed(tuple(map(_of_hint, get_args(hint))))
    if origin is not None and issubclass(origin, Mapping):
        return _mapping(_of_hint(get_args(hint)[1]))
    if origin is not None and issubclass(origin, Sequence):
        return _sequence(_of_hint(get_args(hint)[0]), is_text=get_args(hint)[0] is str)
    return _lazy(hint) if dataclasses.is_dataclass(hint) else _single(hint)


def _lazy(kind: Any) -> _Read:
    """Resolved on use: a record may contain records of its own type."""
    return lambda value, what: _reader(kind)(value, what)


def _optional(hint: _Hint) -> _Read:
    choices = [_of_hint(choice) for choice in get_args(hint) if choice is not type(None)]

    def read(value: Any, what: str) -> Any:
        if value is None:
            return None
        (inner,) = choices
        return inner(value, what)

    return read


def _fixed(readers: Sequence[_Read]) -> _Read:
    def read(value: Any, what: str) -> Any:
        if not isinstance(value, (list, tuple)) or len(value) != len(readers):
            raise _wrong(what, f"a list of {len(readers)}", value)
        return tuple(one(item, what) for one, item in zip(readers, value, strict=True))

    return read


def _sequence(inner: _Read, *, is_text: bool) -> _Read:
    def read(value: Any, what: str) -> Any:
        if not isinstance(value, (list, tuple)):
            raise _wrong(what, "a list", value)
        if is_text and all(type(item) is str for item in value):
            return tuple(value)
        return tuple([inner(item, what) for item in value])

    return read


def _mapping(inner: _Read) -> _Read:
    def read(value: Any, what: str) -> Any:
        if not isinstance(value, Mapping):
            raise _wrong(what, "an object", value)
        return {name: inner(item, f"{what}.{name}") for name, item in value.items()}

    return read


def _single(hint: type) -> _Read:
    def read(value: Any, what: str) -> Any:
        if type(value) is hint:
            return value
        try:
            if issubclass(hint, Enum):
                return hint(value)
            if hint is datetime:
                return datetime.fromisoformat(value)
        except (ValueError, TypeError):
            raise _wrong(what, hint.__name__, value) from None
        if hint is float and type(value) is int:
            return float(value)
        raise _wrong(what, hint.__name__, value)

    return read


def _wrong(what: str, wanted: str, value: object) -> InvalidArgument:
    """Does not contain the value: it may be a secret."""
    return InvalidArgument(f"{what} must be {wanted}, and is {type(value).__name__}.")
