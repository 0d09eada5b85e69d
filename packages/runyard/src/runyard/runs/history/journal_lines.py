"""Parses the lines of a run's journal; docs/wire.md lists them."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from runyard.core.records.metrics import MetricBatch, MetricKind

_INT64 = range(-(2**63) + 1, 2**63)
_SCALARS = frozenset({int, float, str, bool, type(None)})
_DEEPEST = 254  # as for a request body: deeper values could be neither stored nor shown
_Columns = tuple[list[str], list[Any], list[int | None], list[float]]


@dataclass
class ParsedJournal:
    """Content of a piece of a journal. A line that cannot be read is counted in `bad_lines` and skipped."""

    batches: list[MetricBatch] = field(default_factory=list)
    tags: dict[str, str | None] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)
    errors: list[dict[str, Any]] = field(default_factory=list)
    display_name: str | None = None
    dropped: int = 0
    bad_lines: int = 0


def parse_journal(data: bytes) -> ParsedJournal:
    """Parse whole lines; never raises. An integer beyond 64 bits may become a float."""
    parsed = ParsedJournal()
    reader = _Reader(parsed)
    columns = _scalar_columns(data)
    if columns is not None:
        reader.take_scalars(*columns)
    else:
        for line in _decoded(data, parsed):
            reader.take(line)
    return parsed


def _scalar_columns(data: bytes) -> _Columns | None:
    """Names, values, steps and times if all lines are valid scalars, else None. One flat list is three times faster."""
    try:
        flat: list[Any] = orjson.loads(data.rstrip(b"\n").replace(b"]\n[", b","))
    except orjson.JSONDecodeError:
        return None
    if type(flat) is not list or len(flat) != 5 * data.count(b"\n"):
        return None
    kinds, names, values, steps, times = (flat[column::5] for column in range(5))
    sound = (
        kinds.count("m") == len(kinds)
        and set(map(type, names)) == {str}
        and set(map(type, values)) <= _SCALARS
        and set(map(type, steps)) <= {int, type(None)}
        and set(map(type, times)) == {float}
        and all(step in _INT64 for step in set(steps) - {None})
    )
    return (names, values, steps, times) if sound else None


def _decoded(data: bytes, parsed: ParsedJournal) -> Sequence[Any]:
    filled = [line for line in data.split(b"\n") if line and not line.isspace()]
    try:
        decoded: list[Any] = orjson.loads(b"[" + b",".join(filled) + b"]")
        if len(decoded) == len(filled):  # otherwise a line held several values, or one value spanned lines
            return decoded
    except orjson.JSONDecodeError:
        pass
    return [value for line in filled for value in _one(line, parsed)]


def _one(line: bytes, parsed: ParsedJournal) -> Sequence[Any]:
    try:
        return (orjson.loads(line),)
    except orjson.JSONDecodeError:
        pass
    try:
        return (json.loads(line),)  # NaN, infinities, lone surrogates
    except (ValueError, RecursionError):
        parsed.bad_lines += 1
        return ()


class _Reader:
    def __init__(self, parsed: ParsedJournal) -> None:
        self._parsed = parsed
        self._batches: dict[tuple[str, MetricKind], MetricBatch] = {}

    def take(self, line: Any) -> None:
        try:
            _READERS[line[0]](self, *line[1:])
        except (TypeError, ValueError, KeyError, IndexError, OverflowError):
            self._parsed.bad_lines += 1

    def take_scalars(self, names: list[str], values: list[Any], steps: list[int | None], times: list[float]) -> None:
        if len(set(names)) == 1:
            self._parsed.batches.append(MetricBatch(names[0], MetricKind.SCALAR, values, steps, times))
            return
        for name, value, step, at in zip(names, values, steps, times, strict=True):
            self._add(name, MetricKind.SCALAR, value, step, at)

    def _add(self, name: str, kind: MetricKind, value: Any, step: int | None, at: float) -> None:
        batch = self._batches.get((name, kind)) or self._batch(name, kind)
        batch.values.append(value)
        batch.steps.append(step)
        batch.at.append(at)

    def _batch(self, name: str, kind: MetricKind) -> MetricBatch:
        key = name, kind.family
        if key not in self._batches:
            self._batches[key] = MetricBatch(name, kind)
            self._parsed.batches.append(self._batches[key])
        return self._batches[key]

    def _scalar(self, name: Any, value: Any, step: Any, at: Any) -> None:
        if type(value) not in _SCALARS:
            raise TypeError("a scalar must be a number, a string, a bool or null")
        self._add(_text(name), MetricKind.SCALAR, value, _step(step), _time(at))

    def _list(self, name: Any, values: Any, at: Any) -> None:
        if type(values) is not list or not {type(value) for value in values} <= _SCALARS:
            raise TypeError("a list must hold scalars")
        name, at = _text(name), _time(at)
        for value in values:
            self._add(name, MetricKind.LIST, value, None, at)

    def _row(self, name: Any, columns: Any, at: Any) -> None:
        self._add(_text(name), MetricKind.ROW, _object(columns), None, _time(at))

    def _table(self, name: Any, columns: Any, at: Any) -> None:
        self._add(_text(name), MetricKind.TABLE, _object(columns), None, _time(at))

    def _image(self, name: Any, path: Any, at: Any) -> None:
        self._add(_text(name), MetricKind.IMAGE, _text(path), None, _time(at))

    def _tag(self, key: Any, value: Any) -> None:
        self._parsed.tags[_text(key)] = None if value is None else str(_flat(value))

    def _property(self, key: Any, value: Any) -> None:
        self._parsed.properties[_text(key)] = str(_flat(value))

    def _error(self, error: Any) -> None:
        self._parsed.errors.append(_object(error))

    def _display_name(self, name: Any) -> None:
        self._parsed.display_name = _text(name)

    def _dropped(self, count: Any) -> None:
        if type(count) is not int or not 0 <= count < 2**40:
            raise TypeError("a count of dropped points must be a whole number")
        self._parsed.dropped += count


_READERS: dict[str, Callable[..., None]] = {
    "m": _Reader._scalar,
    "l": _Reader._list,
    "r": _Reader._row,
    "t": _Reader._table,
    "i": _Reader._image,
    "tag": _Reader._tag,
    "prop": _Reader._property,
    "err": _Reader._error,
    "name": _Reader._display_name,
    "drop": _Reader._dropped,
}


def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError("a name must be a string")
    return value


def _object(value: Any) -> dict[str, Any]:
    if type(value) is not dict:
        raise TypeError("columns must be an object")
    _flat(value)
    return value


def _flat(value: Any) -> Any:
    level = [value]
    for _ in range(_DEEPEST):
        inner = (one.values() if type(one) is dict else one for one in level if type(one) in (dict, list))
        level = [one for many in inner for one in many if type(one) in (dict, list)]
        if not level:
            return value
    raise ValueError("it is nested too deep")


def _step(value: Any) -> int | None:
    step = None if value is None else int(value)
    return step if step is None or step in _INT64 else None


def _time(value: Any) -> float:
    if type(value) not in (int, float):
        raise TypeError("a time must be a number")
    return float(value)
