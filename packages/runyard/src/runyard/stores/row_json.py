import base64
import binascii
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import BigInteger, Boolean, Column, Double, Integer, LargeBinary, RowMapping, Table

from runyard.errors import InvalidArgument
from runyard.stores.column_types import JsonText, StorableText, UtcTime

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_LATEST = 253_402_300_799_000_000  # the year 9999
_INT64 = 2**63
_SHAPES: Mapping[str, type] = {
    "definition": dict,
    "tags": dict,
    "properties": dict,
    "error": dict,
    "exit_facts": dict,
    "facts": dict,
    "stop": dict,
    "warnings": list,
    "nodes": list,
    "entries": list,
}
_TEXTS_ONLY = frozenset({"tags", "properties", "warnings", "nodes"})


def to_json(table: Table, row: RowMapping, leave_out: frozenset[str]) -> dict[str, Any]:
    return {column.name: _written(column, row[column.name]) for column in table.columns if column.name not in leave_out}


def from_json(table: Table, data: Any, leave_out: frozenset[str]) -> dict[str, Any]:
    """Check a row of foreign JSON. Raises InvalidArgument naming the wrong column. Columns that later schemas added may
    be missing."""
    columns = {column.name: column for column in table.columns if column.name not in leave_out}
    later = {name for name, column in columns.items() if column.nullable or column.server_default is not None}
    if not isinstance(data, dict) or not columns.keys() - later <= data.keys() <= columns.keys():
        raise InvalidArgument(f"The archive has a row for {table.name!r} that does not fit that table.")
    return {name: _read(table, column, data[name]) for name, column in columns.items() if name in data}


def _written(column: Column[Any], value: Any) -> Any:
    if isinstance(value, datetime):
        return (value - _EPOCH) // _MICROSECOND
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _read(table: Table, column: Column[Any], value: Any) -> Any:
    if value is None:
        if column.nullable:
            return None
    elif isinstance(column.type, UtcTime):
        if _is_int(value) and 0 <= value <= _LATEST:
            return _EPOCH + timedelta(microseconds=value)
    elif isinstance(column.type, JsonText):
        if _has_shape(column.name, value):
            return value
    elif isinstance(column.type, LargeBinary):
        if isinstance(value, str):
            try:
                return base64.b64decode(value, validate=True)
            except binascii.Error:
                pass
    elif _is_plain(column, value):
        return value
    raise InvalidArgument(f"The archive has no right value for {column.name!r} of {table.name!r}.")


def _is_plain(column: Column[Any], value: Any) -> bool:
    if isinstance(column.type, StorableText):
        return isinstance(value, str)
    if isinstance(column.type, Boolean):
        return isinstance(value, bool)
    if isinstance(column.type, Double):
        return isinstance(value, float) or _is_int(value)
    if isinstance(column.type, BigInteger):
        return _is_int(value) and -_INT64 <= value < _INT64
    return isinstance(column.type, Integer) and _is_int(value) and -(2**31) <= value < 2**31


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _has_shape(name: str, value: Any) -> bool:
    if name in _SHAPES and not isinstance(value, _SHAPES[name]):
        return False
    texts: Iterable[Any] = value.values() if isinstance(value, dict) else value
    return name not in _TEXTS_ONLY or all(isinstance(text, str) for text in texts)
