import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any

import orjson
from sqlalchemy import BigInteger, Dialect, Row, Select, Text
from sqlalchemy.types import TypeDecorator

AnyRow = Row[*tuple[Any, ...]]
AnySelect = Select[*tuple[Any, ...]]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class StorableText(TypeDecorator[str]):
    """Text of users. NUL and lone surrogates, which no database accepts, become replacement characters."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return value if value is None else storable(value)


class JsonText(TypeDecorator[Any]):
    """JSON as text, so that NaN and any string can be stored in every database."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        return None if value is None else json_text(value)

    # Not process_result_value: a listing of runs reads nine such values a row, and that is two calls more for each.
    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:
        return _read_json


class ShownJsonText(JsonText):
    """JSON that users see as it is stored: formatted like `json.dumps` does by default."""

    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        return None if value is None else json.dumps(value)


class UtcTime(TypeDecorator[datetime]):
    """Microseconds since 1970."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        return None if value is None else (value - _EPOCH) // _MICROSECOND

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], datetime | None]:
        return read_time


def storable(text: str) -> str:
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd")


def json_text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), default=dict)


def _read_json(value: str | None) -> Any:
    return None if value is None else from_json(value)


def read_time(value: int | None) -> datetime | None:
    return None if value is None else _EPOCH + timedelta(microseconds=value)


def from_json(text: str | bytes) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:  # NaN, infinities, lone surrogates
        return json.loads(text)


_LONGEST = 300  # PostgreSQL refuses index entries above 2,704 bytes; a key is up to four bytes a character


def index_key(text: str) -> str:
    """The text itself, or its beginning and a digest if it is too long for an index."""
    clean = storable(text)
    return clean if len(clean) <= _LONGEST else f"{clean[:_LONGEST]}\x1f{_digest(clean).hex()}"


def label_digest(workspace: str, group: str, key: str, value: str | None = None) -> bytes:
    """Digest to find runs by one equality: those with the tag or property (`group`) at all, or with this value."""
    return _digest("\x1f".join([workspace, group, key] if value is None else [workspace, group, key, value]))


def label_digests(workspace: str, tags: Mapping[str, str], properties: Mapping[str, str]) -> set[bytes]:
    return set(_labels(workspace, "tag", tags)) | set(_labels(workspace, "property", properties))


def _labels(workspace: str, group: str, pairs: Mapping[str, str]) -> Iterable[bytes]:
    for key, value in pairs.items():
        yield label_digest(workspace, group, key)
        yield label_digest(workspace, group, key, str(value))


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()
