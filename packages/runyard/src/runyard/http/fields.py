"""Fields of a JSON body, taken out with their type checked and the user's name for them in the error."""

from collections.abc import Sequence
from typing import Any

from runyard.errors import InvalidArgument, Json
from runyard.model.files import FileEntry


def text(body: Json, name: str, default: str | None = None) -> str:
    value = body.get(name)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        raise InvalidArgument(f"{name} must be a string, got {_shown(value)}.")
    return value


def flag(body: Json, name: str, default: bool = False) -> bool:
    value = body.get(name, default)
    if not isinstance(value, bool):
        raise InvalidArgument(f"{name} must be true or false, got {_shown(value)}.")
    return value


def mapping(body: Json, name: str) -> dict[str, Any]:
    value = body.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidArgument(f"{name} must be an object, got {_shown(value)}.")
    return value


def strings(body: Json, name: str) -> dict[str, str]:
    """An object of strings; numbers and truth values are written out, nulls left out."""
    given = mapping(body, name)
    for key, value in given.items():
        if isinstance(value, (dict, list)):
            raise InvalidArgument(f"{name}[{key!r}] must be a string, got {_shown(value)}.")
    return {key: value if isinstance(value, str) else str(value) for key, value in given.items() if value is not None}


def whole_number(body: Json, name: str, *, least: int = 0) -> int:
    value = body.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidArgument(f"{name} must be a whole number of at least {least}, got {_shown(value)}.")
    return value


def names(body: Json, name: str) -> list[str]:
    value = body.get(name)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise InvalidArgument(f"{name} must be a list of strings.")
    return value


def pairs(body: Json, name: str) -> list[tuple[str, str]]:
    value = body.get(name)
    if not isinstance(value, list) or not all(_is_pair(item) for item in value):
        raise InvalidArgument(f"{name} must be a list of pairs of strings.")
    return [(first, second) for first, second in value]


def entries(body: Json, name: str) -> Sequence[FileEntry]:
    try:
        return [
            FileEntry(str(path), str(sha256), int(size), int(mode)) for path, sha256, size, mode in body.get(name, ())
        ]
    except (TypeError, ValueError):
        raise InvalidArgument(f"{name} must be a list of [path, sha256, size, mode].") from None


def as_rows(files: Sequence[FileEntry]) -> list[list[str | int]]:
    return [[entry.path, entry.sha256, entry.size, entry.mode] for entry in files]


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(isinstance(item, str) for item in value)


def _shown(value: Any) -> str:
    shown = ascii(value)
    return shown if len(shown) <= 80 else shown[:77] + "..."
