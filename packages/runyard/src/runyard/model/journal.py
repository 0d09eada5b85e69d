"""What the lines of a run's journal mean; docs/wire.md lists them."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import orjson

from runyard.model.metrics import MetricKind, MetricPoint

_INT64 = range(-(2**63) + 1, 2**63)


@dataclass
class ParsedJournal:
    """What a piece of a journal says. A line that cannot be read is counted in `bad_lines` and costs only itself."""

    points: list[MetricPoint] = field(default_factory=list)
    tags: dict[str, str | None] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)
    errors: list[dict[str, Any]] = field(default_factory=list)
    display_name: str | None = None
    dropped: int = 0
    bad_lines: int = 0


def parse_journal(data: bytes) -> ParsedJournal:
    """Whole lines in, meaning out; never raises."""
    parsed = ParsedJournal()
    add_point = parsed.points.append
    new_point, scalar = tuple.__new__, MetricKind.SCALAR
    for line in _decoded(data.split(b"\n"), parsed):
        try:
            kind = line[0]
            # Nearly all lines are scalars as they should be; a call apiece would double the time.
            if kind == "m" and tuple(map(type, line)) in _PLAIN and (line[3] is None or line[3] in _INT64):
                add_point(new_point(MetricPoint, (line[1], scalar, *line[2:])))
            else:
                _READERS[kind](parsed, *line[1:])
        except (TypeError, ValueError, KeyError, IndexError, OverflowError):
            parsed.bad_lines += 1
    return parsed


def _decoded(lines: Iterable[bytes], parsed: ParsedJournal) -> Iterable[Any]:
    filled = [line for line in lines if line and not line.isspace()]
    try:
        decoded: list[Any] = orjson.loads(b"[" + b",".join(filled) + b"]")
        if len(decoded) == len(filled):  # else one line held several values, or several lines one
            return decoded
    except orjson.JSONDecodeError:
        pass
    return _one_by_one(filled, parsed)


def _one_by_one(lines: Iterable[bytes], parsed: ParsedJournal) -> Iterable[Any]:
    for line in lines:
        try:
            yield orjson.loads(line)
        except orjson.JSONDecodeError:
            try:
                yield json.loads(line)  # NaN, infinities, lone surrogates
            except (ValueError, RecursionError):
                parsed.bad_lines += 1


def _scalar(parsed: ParsedJournal, name: Any, value: Any, step: Any, at: Any) -> None:
    if type(value) not in _SCALARS:
        raise ValueError("a scalar must be a number, a string, a bool or null")
    parsed.points.append(MetricPoint(_text(name), MetricKind.SCALAR, value, _step(step), _time(at)))


def _list(parsed: ParsedJournal, name: Any, values: Any, at: Any) -> None:
    if type(values) is not list or not {type(value) for value in values} <= _SCALARS:
        raise ValueError("a list must hold scalars")
    parsed.points.append(MetricPoint(_text(name), MetricKind.LIST, values, None, _time(at)))


def _row(parsed: ParsedJournal, name: Any, columns: Any, at: Any) -> None:
    parsed.points.append(MetricPoint(_text(name), MetricKind.ROW, _columns(columns), None, _time(at)))


def _table(parsed: ParsedJournal, name: Any, columns: Any, at: Any) -> None:
    parsed.points.append(MetricPoint(_text(name), MetricKind.TABLE, _columns(columns), None, _time(at)))


def _image(parsed: ParsedJournal, name: Any, path: Any, at: Any) -> None:
    parsed.points.append(MetricPoint(_text(name), MetricKind.IMAGE, _text(path), None, _time(at)))


def _tag(parsed: ParsedJournal, key: Any, value: Any) -> None:
    parsed.tags[_text(key)] = None if value is None else str(value)


def _property(parsed: ParsedJournal, key: Any, value: Any) -> None:
    parsed.properties[_text(key)] = str(value)


def _error(parsed: ParsedJournal, error: Any) -> None:
    parsed.errors.append(_columns(error))


def _display_name(parsed: ParsedJournal, name: Any) -> None:
    parsed.display_name = _text(name)


def _dropped(parsed: ParsedJournal, count: Any) -> None:
    if type(count) is not int or not 0 <= count < 2**40:
        raise ValueError("a count of dropped points must be a whole number")
    parsed.dropped += count


_READERS: dict[str, Callable[..., None]] = {
    "m": _scalar,
    "l": _list,
    "r": _row,
    "t": _table,
    "i": _image,
    "tag": _tag,
    "prop": _property,
    "err": _error,
    "name": _display_name,
    "drop": _dropped,
}
_SCALARS = frozenset({int, float, str, bool, type(None)})
_PLAIN = frozenset((str, str, value, step, float) for value in _SCALARS for step in (int, type(None)))


def _text(value: Any) -> str:
    if type(value) is not str:
        raise ValueError("a name must be a string")
    return value


def _columns(value: Any) -> dict[str, Any]:
    if type(value) is not dict:
        raise ValueError("columns must be an object")
    return value


def _step(value: Any) -> int | None:
    step = None if value is None else int(value)
    return step if step is None or step in _INT64 else None


def _time(value: Any) -> float:
    if type(value) not in (int, float):
        raise ValueError("a time must be a number")
    return float(value)
