"""Reads typed fields from JSON objects. An error names the field by its path, or by the SDK's name for it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeGuard, TypeVar

from runyard.core.errors import InvalidArgument

JsonValue: TypeAlias = "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
JsonObject: TypeAlias = Mapping[str, JsonValue]
Tags: TypeAlias = Mapping[str, str]

T = TypeVar("T")
_AS_THE_SDK = "Send it as the SDK makes it."
NOTHING: JsonObject = {}


@dataclass(frozen=True)
class MergePatch:
    """Fields to set in a stored object. A null removes the field; unknown fields are kept."""

    fields: JsonObject = field(default_factory=dict)

    def over(self, stored: JsonObject) -> JsonObject:
        return {name: value for name, value in {**stored, **self.fields}.items() if value is not None}


class read_once(Generic[T]):
    """A cached property of a frozen record.

    As functools.cached_property, without the lock that Python 3.11 takes: two threads may both compute it.
    """

    def __init__(self, read: Callable[[Any], T]) -> None:
        self._read, self._name, self.__doc__ = read, read.__name__, read.__doc__

    def __get__(self, record: Any, owner: type | None = None) -> T:
        value = record.__dict__[self._name] = self._read(record)
        return value


def shown(value: object) -> str:
    """The value for an error message: printable, at most 80 characters."""
    try:
        text = ascii(value)
    except (RecursionError, ValueError):  # nested too deep, or a number with too many digits
        text = f"a value of type {type(value).__name__}"
    return text if len(text) <= 80 else text[:77] + "..."


def is_whole(value: object) -> TypeGuard[int]:
    """Whether the value is an integer: Python counts bools among them, JSON does not."""
    return isinstance(value, int) and not isinstance(value, bool)


def whole_number(value: object, called: str, *, at_least: int = 0, at_most: int | None = None) -> int:
    """The value if it is an integer in the range. Raises InvalidArgument otherwise, also for bools and floats."""
    if is_whole(value) and at_least <= value and (at_most is None or value <= at_most):
        return value
    wanted = f"of at least {at_least}" if at_most is None else f"from {at_least} to {at_most}"
    raise InvalidArgument(f"{called} must be a whole number {wanted}, got {shown(value)}.")


def as_object(value: JsonValue, path: str) -> JsonObject:
    if not isinstance(value, Mapping):
        raise InvalidArgument(f"{path} must be an object, got {shown(value)}.", hint=_AS_THE_SDK)
    return value


class Fields:
    """The fields of one object. A null counts as not given; fields that are not read are not checked."""

    __slots__ = ("_name", "_within", "raw")

    def __init__(self, raw: JsonObject, name: str = "", within: "Fields | None" = None) -> None:
        self.raw, self._name, self._within = raw, name, within

    def path_of(self, name: str) -> str:
        """Path of the field for an error. Built only on errors, since most definitions are valid."""
        own = self._within.path_of(self._name) if self._within else self._name
        return f"{own}.{name}" if own else name

    def text(self, name: str, default: str = "") -> str:
        """A string; a number is converted, and "" counts as not given."""
        value = self.raw.get(name)
        if isinstance(value, str):
            return value or default
        if not value:
            return default
        if isinstance(value, int | float):
            return str(value)
        raise InvalidArgument(f"{self.path_of(name)} must be a string, got {shown(value)}.", hint=_AS_THE_SDK)

    def flag(self, name: str) -> bool:
        value = self.raw.get(name)
        if value is not None and not isinstance(value, bool | int):
            raise InvalidArgument(f"{self.path_of(name)} must be true or false, got {shown(value)}.")
        return bool(value)

    def flag_or_none(self, name: str) -> bool | None:
        return None if self.raw.get(name) is None else self.flag(name)

    def whole(self, name: str, default: int, called: str = "", *, at_least: int = 0) -> int:
        value = self.raw.get(name)
        return default if value is None else whole_number(value, called or self.path_of(name), at_least=at_least)

    def section(self, name: str) -> "Fields":
        """A nested object; an empty one if it is not given."""
        value = self.raw.get(name)
        if not value:
            return Fields(NOTHING, name, self)
        return Fields(value if isinstance(value, dict) else as_object(value, self.path_of(name)), name, self)

    def items(self, name: str) -> Sequence[JsonValue]:
        """A list of any values; empty if it is not given."""
        value = self.raw.get(name)
        if not value:
            return ()
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise InvalidArgument(f"{self.path_of(name)} must be a list, got {shown(value)}.", hint=_AS_THE_SDK)
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of strings; other values are converted."""
        return tuple(map(str, self.items(name)))

    def strings(self, name: str) -> Mapping[str, str]:
        """An object of strings; other values are converted."""
        return {str(key): str(value) for key, value in self.section(name).raw.items()}
