"""Base class and shared field types of request bodies."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema

from runyard.core.definitions.fields import is_whole
from runyard.core.records.files import FileEntry

MAX_INTEGER = 10**18 - 1
"""Largest integer that files and databases hold."""


class Body(BaseModel):
    """Base model of JSON bodies. Types are never converted. Unknown fields are ignored: a newer client may send them.
    Validators are built at the first request, so that the service starts quickly."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", defer_build=True)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Report only the first invalid item of a list: a million of them would be a gigabyte of errors."""
        schema = handler(source)
        _fail_fast(schema)
        return schema


def _fail_fast(schema: Any) -> None:
    if isinstance(schema, dict):
        if schema.get("type") in ("list", "tuple"):
            schema["fail_fast"] = True
        for inner in schema.values():
            _fail_fast(inner)
    elif isinstance(schema, list):
        for inner in schema:
            _fail_fast(inner)


def _texts(given: Any) -> Any:
    """Turn numbers and booleans into text, and drop nulls."""
    if not isinstance(given, dict):
        return {} if given is None else given
    return _first_invalid(given) or {key: _text(value) for key, value in given.items() if value is not None}


def _changed_texts(given: Any) -> Any:
    if not isinstance(given, dict):
        return {} if given is None else given
    return _first_invalid(given) or {key: None if value is None else _text(value) for key, value in given.items()}


def _first_invalid(given: dict[str, Any]) -> dict[str, Any]:
    """The first entry that cannot become text, alone: the model would report each of a million."""
    return next(({key: value} for key, value in given.items() if isinstance(value, (dict, list))), {})


def _object(given: Any) -> Any:
    return {} if given is None else given


def as_tuple(row: Any) -> Any:
    """Turn a JSON list into a tuple, for fields that hold rows."""
    return tuple(row) if isinstance(row, list) else row


def _text(value: Any) -> Any:
    return value if isinstance(value, (str, dict, list)) else str(value)


def _entry(row: Any) -> Any:
    if not isinstance(row, list) or len(row) != 4:
        raise ValueError("must be [path, sha256, size, mode]")
    path, sha256, size, mode = row
    if not (isinstance(path, str) and isinstance(sha256, str) and _is_count(size) and _is_count(mode)):
        raise ValueError("must be [path, sha256, size, mode]")
    return FileEntry(path, sha256, size, mode)


def _is_count(value: Any) -> bool:
    return is_whole(value) and 0 <= value <= MAX_INTEGER


Texts = Annotated[dict[str, str], BeforeValidator(_texts)]
"""An object of strings."""
ChangedTexts = Annotated[dict[str, str | None], BeforeValidator(_changed_texts)]
"""The same for changes; a null removes the entry."""
Object = Annotated[dict[str, Any], BeforeValidator(_object)]
"""An object that the use case checks itself."""
Pair = Annotated[tuple[str, str], BeforeValidator(as_tuple)]
Count = Annotated[int, Field(ge=0, le=MAX_INTEGER)]
Entry = Annotated[
    FileEntry,
    BeforeValidator(_entry, json_schema_input_type=tuple[str, str, int, int]),
]
"""A file, as [path, sha256, size, mode]."""


Row = tuple[str, str, int, int]


def as_rows(files: Sequence[FileEntry]) -> list[Row]:
    """Rows of a response: each [path, sha256, size, mode]."""
    return [(entry.path, entry.sha256, entry.size, entry.mode) for entry in files]


@dataclass(frozen=True)
class ErrorAnswer:
    """Every answer that is not a success."""

    code: str
    """Names the kind of error; `docs/wire.md` lists them."""
    problem: str
    hint: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
