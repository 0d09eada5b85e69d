"""What bodies are made of: the base of their models, and the types that several of them have."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema

from runyard.model.files import FileEntry

MOST = 10**18 - 1
"""What files and databases can count to."""


class Body(BaseModel):
    """A JSON object. Types are taken as they are, never converted; fields that we do not know are left alone: a newer
    client may send them. The checks are made at the first request, since the service must start quickly."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", defer_build=True)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Report the first wrong item of a list only: a million of them would be a gigabyte of errors."""
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
    """Numbers and truth values are written out, nulls left out."""
    if not isinstance(given, dict):
        return {} if given is None else given
    return _first_wrong(given) or {key: _text(value) for key, value in given.items() if value is not None}


def _changed_texts(given: Any) -> Any:
    if not isinstance(given, dict):
        return {} if given is None else given
    return _first_wrong(given) or {key: None if value is None else _text(value) for key, value in given.items()}


def _first_wrong(given: dict[str, Any]) -> dict[str, Any]:
    """The first that is no text and no number, for the model to refuse: of a million it would tell each."""
    return next(({key: value} for key, value in given.items() if isinstance(value, (dict, list))), {})


def _object(given: Any) -> Any:
    return {} if given is None else given


def as_tuple(row: Any) -> Any:
    """For rows, which JSON has as lists."""
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
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST


Texts = Annotated[dict[str, str], BeforeValidator(_texts)]
"""An object of strings."""
ChangedTexts = Annotated[dict[str, str | None], BeforeValidator(_changed_texts)]
"""The same; a null removes."""
Object = Annotated[dict[str, Any], BeforeValidator(_object)]
"""What a kind of thing checks itself."""
Pair = Annotated[tuple[str, str], BeforeValidator(as_tuple)]
Count = Annotated[int, Field(ge=0, le=MOST)]
Entry = Annotated[
    FileEntry,
    BeforeValidator(_entry, json_schema_input_type=tuple[str, str, int, int]),
]
"""A file, as [path, sha256, size, mode]."""


Row = tuple[str, str, int, int]


def as_rows(files: Sequence[FileEntry]) -> list[Row]:
    """Files as answers show them: each [path, sha256, size, mode]."""
    return [(entry.path, entry.sha256, entry.size, entry.mode) for entry in files]


@dataclass(frozen=True)
class ErrorAnswer:
    """Every answer that is not a success."""

    code: str
    """Names the kind of error; `docs/wire.md` lists them."""
    problem: str
    hint: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
