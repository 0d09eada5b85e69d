"""What a report of a supervisor may hold. A script can read its attempt's token, so that reports come from anybody."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from runyard.errors import InvalidArgument
from runyard.model.runs import RunRecord

OUTCOMES = ("completed", "failed", "canceled")
_ENDS = frozenset({"failing", "ended"})
_MOST_LETTERS = 2_000
_MOST_OF_A_TAIL = 64 << 10


def checked_report(report: Mapping[str, Any]) -> dict[str, Any]:
    """The report with texts cut to what is worth keeping. InvalidArgument names the field that cannot be right."""
    for name, (is_right, expected) in _FIELDS.items():
        value = report.get(name)
        if value is not None and not is_right(value):
            raise InvalidArgument(f"{name} must be {expected}, got {ascii(value)[:80]}.")
    if report.get("state") in _ENDS and report.get("outcome") is None:
        raise InvalidArgument(f"outcome is missing: an end has one of {', '.join(OUTCOMES)}.")
    cut = {
        "message": (report.get("message") or "")[:_MOST_LETTERS],
        "tail": (report.get("tail") or "")[-_MOST_OF_A_TAIL:],
    }
    return {**report, **{name: text for name, text in cut.items() if text}}


def node_of(run: RunRecord, report: Mapping[str, Any]) -> int:
    """Which of the run's nodes tells it. InvalidArgument for one that the run has not."""
    node = report.get("node", 0)
    if not _is_whole(node) or not 0 <= node < len(run.nodes):
        raise InvalidArgument(
            f"node must be from 0 to {len(run.nodes) - 1} for run {run.id!r}, got {ascii(node)[:80]}."
        )
    return int(node)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_time(value: Any) -> bool:
    try:
        return datetime.fromisoformat(value).tzinfo is not None
    except (TypeError, ValueError):
        return False


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_object(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_object_of(is_right: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, Mapping) and all(map(is_right, value.values()))


_WHOLE = (_is_whole, "a whole number")
_TIME = (_is_time, "an ISO time with its zone")
_TEXT = (_is_text, "a text")
_FIELDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "outcome": (lambda value: value in OUTCOMES, f"one of {', '.join(OUTCOMES)}"),
    "error": (_is_object, "an object"),
    "message": _TEXT,
    "tail": _TEXT,
    "log": _TEXT,
    "phase": _TEXT,
    "rank": _WHOLE,
    "exit_code": _WHOLE,
    "signal": _WHOLE,
    "failed_node": _WHOLE,
    "undelivered": _WHOLE,
    "failed_at": _TIME,
    "started_at": _TIME,
    "warnings": (lambda value: isinstance(value, list), "a list"),
    "outputs": (_is_object_of(_is_whole), "an object of numbers"),
    "last_lines": (_is_object_of(_is_object), "an object of objects"),
}
