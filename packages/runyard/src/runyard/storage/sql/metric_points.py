"""Metric points as packed columns, and their summary.

Numbers are packed as little-endian int64 or float64, other values as a JSON array.
"""

import json
import math
import sys
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from runyard.core.records.metrics import as_number
from runyard.storage.sql.columns import json_text

_NO_STEP = -(2**63)


@dataclass(frozen=True)
class Chunk:
    """Points in the order of arrival. `type` is as in MetricSeries. `steps` is None if no point has a step, `ranks` if
    all points are of rank 0."""

    type: str
    count: int
    values: bytes
    steps: bytes | None
    at: bytes
    ranks: bytes | None = None


def pack_points(values: Sequence[Any], steps: Sequence[int | None], at: Sequence[float], rank: int = 0) -> Chunk:
    packed_steps = None
    if steps.count(None) < len(steps):
        packed_steps = _bytes(array("q", [_NO_STEP if step is None else step for step in steps]))
    type_, packed = _packed_values(values)
    ranks = _bytes(array("i", [rank])) * len(values) if rank else None
    return Chunk(type_, len(values), packed, packed_steps, _bytes(array("d", at)), ranks)


def join_chunks(first: Chunk, second: Chunk) -> Chunk:
    type_ = common_type([first.type, second.type])
    steps = None
    if first.steps is not None or second.steps is not None:
        steps = _step_bytes(first) + _step_bytes(second)
    if type_ == "j":
        left, right = _json_array(first), _json_array(second)
        values = left[:-1] + b"," + right[1:]
    else:
        values = _bytes(_numbers(type_, [first, second]))
    ranks = None
    if first.ranks is not None or second.ranks is not None:
        ranks = _rank_bytes(first) + _rank_bytes(second)
    return Chunk(type_, first.count + second.count, values, steps, first.at + second.at, ranks)


def common_type(types: Iterable[str]) -> str:
    seen = set(types)
    return "j" if "j" in seen else "f" if "f" in seen else "i"


def unpack_values(chunks: Sequence[Chunk]) -> tuple[str, Sequence[Any]]:
    """Common type, and the values as an array of int64 or float64, or a list."""
    type_ = common_type(chunk.type for chunk in chunks)
    if type_ != "j":
        return type_, _numbers(type_, chunks)
    values: list[Any] = []
    for chunk in chunks:
        values.extend(json.loads(chunk.values) if chunk.type == "j" else _numbers(chunk.type, [chunk]))
    # If one number is a float, all are, whichever chunk they are in.
    if any(type(value) is float for value in values):
        return type_, [float(value) if _is_int64(value) else value for value in values]
    return type_, values


def unpack_steps(chunks: Sequence[Chunk]) -> Sequence[int | None]:
    if all(chunk.steps is None for chunk in chunks):
        return [None] * sum(chunk.count for chunk in chunks)
    steps = _array("q", b"".join(map(_step_bytes, chunks)))
    return [None if step == _NO_STEP else step for step in steps] if _NO_STEP in steps else steps


def unpack_times(chunks: Sequence[Chunk]) -> Sequence[float]:
    return _array("d", b"".join(chunk.at for chunk in chunks))


def unpack_ranks(chunks: Sequence[Chunk]) -> Sequence[int] | None:
    """None if all points are of rank 0."""
    if all(chunk.ranks is None for chunk in chunks):
        return None
    return _array("i", b"".join(map(_rank_bytes, chunks)))


def _packed_values(values: Sequence[Any]) -> tuple[str, bytes]:
    types = set(map(type, values))
    try:
        if types == {int}:
            return "i", _bytes(array("q", values))
        if types == {float}:
            return "f", _bytes(array("d", values))
        if types == {int, float}:
            array("q", [value for value in values if type(value) is int])
            return "f", _bytes(array("d", values))
    except OverflowError:  # an integer beyond 64 bits keeps all its digits as JSON
        pass
    return "j", json_text(list(values)).encode()


def _numbers(type_: str, chunks: Sequence[Chunk]) -> "array[Any]":
    if type_ == "i":
        return _array("q", b"".join(chunk.values for chunk in chunks))
    numbers = array("d")
    for chunk in chunks:
        numbers.extend(_array("d", chunk.values) if chunk.type == "f" else map(float, _array("q", chunk.values)))
    return numbers


def _json_array(chunk: Chunk) -> bytes:
    return chunk.values if chunk.type == "j" else json_text(_numbers(chunk.type, [chunk]).tolist()).encode()


def _is_int64(value: Any) -> bool:
    return type(value) is int and -(2**63) <= value < 2**63


def _step_bytes(chunk: Chunk) -> bytes:
    return chunk.steps if chunk.steps is not None else _bytes(array("q", [_NO_STEP])) * chunk.count


def _rank_bytes(chunk: Chunk) -> bytes:
    return chunk.ranks if chunk.ranks is not None else _bytes(array("i", [0])) * chunk.count


def _bytes(numbers: "array[Any]") -> bytes:
    if sys.byteorder == "big":
        numbers = array(numbers.typecode, numbers)
        numbers.byteswap()
    return numbers.tobytes()


def _array(typecode: str, packed: bytes) -> "array[Any]":
    numbers: array[Any] = array(typecode)
    numbers.frombytes(packed)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


@dataclass(frozen=True)
class NumberSummary:
    """Summary of the numbers of a metric, without NaN and other values. None if there are no numbers."""

    last: float | None = None
    minimum: float | None = None
    maximum: float | None = None

    def then(self, later: "NumberSummary") -> "NumberSummary":
        last = self.last if later.last is None else later.last
        return NumberSummary(last, lowest(self.minimum, later.minimum), highest(self.maximum, later.maximum))


def lowest(*numbers: float | None) -> float | None:
    return min((number for number in numbers if number is not None), default=None)


def highest(*numbers: float | None) -> float | None:
    return max((number for number in numbers if number is not None), default=None)


def summarize_numbers(values: Sequence[Any]) -> NumberSummary:
    numbers = [number for value in values if (number := as_number(value)) is not None and not math.isnan(number)]
    return NumberSummary(numbers[-1], min(numbers), max(numbers)) if numbers else NumberSummary()


@dataclass(frozen=True)
class Score:
    """Result of a run for comparison by one metric: the numbers of the lowest rank that logged any.

    NaN and infinities are counted, but are neither minimum nor maximum. Without a number, the rank is None.
    """

    scored_rank: int | None = None
    scored_count: int | None = None
    scored_minimum: float | None = None
    scored_maximum: float | None = None

    def then(self, later: "Score") -> "Score":
        if self.scored_rank is None or later.scored_rank is None:
            return self if later.scored_rank is None else later
        if self.scored_rank != later.scored_rank:
            return min(self, later, key=lambda score: score.scored_rank or 0)
        return Score(
            self.scored_rank,
            (self.scored_count or 0) + (later.scored_count or 0),
            lowest(self.scored_minimum, later.scored_minimum),
            highest(self.scored_maximum, later.scored_maximum),
        )


def summarize_batch(values: Sequence[Any], rank: int) -> tuple[NumberSummary, Score]:
    """Summary and score of a non-empty batch of one rank. Fast for the usual case of finite numbers."""
    try:
        if set(map(type, values)) <= {int, float} and math.isfinite(sum(values)):
            low, high = float(min(values)), float(max(values))
            return NumberSummary(float(values[-1]), low, high), Score(rank, len(values), low, high)
    except OverflowError:  # an integer too large for a float is not counted as a number
        pass
    return summarize_numbers(values), _scored(values, rank)


def _scored(values: Sequence[Any], rank: int) -> Score:
    numbers = [number for value in values if (number := as_number(value)) is not None]
    if not numbers:
        return Score()
    finite = [number for number in numbers if math.isfinite(number)]
    return Score(rank, len(numbers), min(finite, default=None), max(finite, default=None))
