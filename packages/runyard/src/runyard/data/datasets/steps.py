"""Steps of a file dataset (skip, take, sample, filter): which of its files, sorted by path, it has."""

import operator
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from runyard.core.definitions.fields import is_whole
from runyard.core.errors import InvalidArgument
from runyard.core.records.data import SourceFile, StoredFile

MOST_STEPS = 100


@dataclass(frozen=True)
class FoundFile:
    """File of a dataset, with its record of the store."""

    source: SourceFile
    stored: StoredFile


Step = Callable[[Sequence[FoundFile]], Sequence[FoundFile]]


def steps_of(given: Any) -> list[Step]:
    """Compile the steps. Raises InvalidArgument naming the step that is wrong."""
    if not isinstance(given, list) or len(given) > MOST_STEPS:
        raise InvalidArgument(f"The steps of a dataset are a list of at most {MOST_STEPS}.")
    return [_step(step) for step in given]


def _step(step: Any) -> Step:
    if not isinstance(step, list) or not step or not isinstance(step[0], str) or step[0] not in _STEPS:
        raise InvalidArgument(
            f"{ascii(step)[:80]} is not a step of a file dataset.", hint=f"Known: {', '.join(_STEPS)}."
        )
    try:
        return _STEPS[step[0]](*step[1:])
    except TypeError:
        raise InvalidArgument(f"The step {step[0]!r} has {len(step) - 1} arguments, which is not right.") from None


def _skip(count: Any) -> Step:
    number = _count("skip", count)
    return lambda files: files[number:]


def _take(count: Any) -> Step:
    number = _count("take", count)
    return lambda files: files[:number]


def _sample(probability: Any, seed: Any, keep: Any = True) -> Step:
    if isinstance(probability, bool) or not isinstance(probability, int | float) or not 0 <= probability <= 1:
        raise InvalidArgument(f"probability must be a number from 0 to 1, got {ascii(probability)[:80]}.")
    if not is_whole(seed) or not isinstance(keep, bool):
        raise InvalidArgument(f"seed must be a whole number, got {ascii(seed)[:80]}.")

    def sample(files: Sequence[FoundFile]) -> Sequence[FoundFile]:
        chances = random.Random(seed)
        return [file for file in files if (chances.random() < probability) is keep]

    return sample


def _filter(expression: Any) -> Step:
    is_wanted = predicate(expression)
    return lambda files: [file for file in files if is_wanted(_row(file))]


Row = Mapping[str, Any]


def _row(file: FoundFile) -> Row:
    return {
        "Path": "/" + file.source.path,
        "Size": file.stored.size,
        "LastModifiedTime": file.stored.modified_at,
        "CanSeek": file.stored.is_ranged,
    }


def _count(step: str, count: Any) -> int:
    if not is_whole(count) or count < 0:
        raise InvalidArgument(f"count of {step} must be a whole number from 0 to 2**63, got {ascii(count)[:80]}.")
    return count


_STEPS: Mapping[str, Callable[..., Step]] = {"skip": _skip, "take": _take, "sample": _sample, "filter": _filter}

Predicate = Callable[[Row], bool]
Operand = Callable[[Row], Any]

DEEPEST = 60
COLUMNS = ("Path", "Size", "LastModifiedTime", "CanSeek")
_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_TEXT_TESTS: Mapping[str, Callable[[str, str], bool]] = {
    "startswith": str.startswith,
    "endswith": str.endswith,
    "contains": operator.contains,
}


def predicate(expression: Any) -> Predicate:
    """Compile a filter expression. A value that the store does not report matches only "!=". Raises InvalidArgument."""
    return _compiled(expression, DEEPEST)


def _compiled(expression: Any, depth: int) -> Predicate:
    if depth == 0:
        raise InvalidArgument(f"The filter is nested deeper than {DEEPEST}.")
    match expression:
        case ["and", first, second]:
            one, two = _compiled(first, depth - 1), _compiled(second, depth - 1)
            return lambda row: one(row) and two(row)
        case ["or", first, second]:
            one, two = _compiled(first, depth - 1), _compiled(second, depth - 1)
            return lambda row: one(row) or two(row)
        case ["not", inner]:
            negated = _compiled(inner, depth - 1)
            return lambda row: not negated(row)
        case [str() as test, left, right] if test in _ORDERS:
            return _order(test, left, right)
        case [str() as test, left, right] if test in _TEXT_TESTS:
            return _text_test(test, left, right)
    known = ", ".join(["and", "or", "not", *_ORDERS, *_TEXT_TESTS])
    raise InvalidArgument(f"{ascii(expression)[:80]} is not a filter.", hint=f"Known: {known}.")


def _order(test: str, left: Any, right: Any) -> Predicate:
    compare = _ORDERS[test]
    is_time = ["column", "LastModifiedTime"] in (left, right)
    one, two = _operand(left, is_time), _operand(right, is_time)

    def ordered(row: Row) -> bool:
        first, second = one(row), two(row)
        if first is None or second is None:
            return test == "!="
        try:
            return bool(compare(first, second))
        except TypeError:
            kinds = f"{type(first).__name__} and {type(second).__name__}"
            raise InvalidArgument(f"The filter compares {kinds} with {test!r}, which cannot be ordered.") from None

    return ordered


def _text_test(test: str, left: Any, right: Any) -> Predicate:
    holds = _TEXT_TESTS[test]
    one, two = _operand(left, is_time=False), _operand(right, is_time=False)

    def tested(row: Row) -> bool:
        first, second = one(row), two(row)
        return isinstance(first, str) and isinstance(second, str) and holds(first, second)

    return tested


def _operand(operand: Any, is_time: bool) -> Operand:
    if isinstance(operand, list):
        if len(operand) == 2 and operand[0] == "column" and operand[1] in COLUMNS:
            name = operand[1]
            return lambda row: row[name]
        raise InvalidArgument(
            f"{ascii(operand)[:80]} is not a column of a file dataset.", hint=f"Columns: {', '.join(COLUMNS)}."
        )
    if operand is not None and not isinstance(operand, str | int | float):
        raise InvalidArgument(f"{ascii(operand)[:80]} cannot be compared with.")
    value = _time(operand) if is_time else operand
    return lambda row: value


def _time(text: Any) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise InvalidArgument(f"LastModifiedTime is compared with {ascii(text)[:80]}, which is no ISO time.") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
