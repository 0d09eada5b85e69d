"""Reports of supervisors on their node tasks. A script can read its attempt's token, so no report is trusted."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from runyard.core.definitions.fields import JsonObject, JsonValue, is_whole, shown
from runyard.core.errors import InvalidArgument

OUTCOMES = ("completed", "failed", "canceled")
STATES = ("preparing", "prepared", "ready", "running", "finalizing", "done", "failing", "ended")
_ENDS = frozenset({"failing", "ended"})
_MOST_LETTERS = 2_000
_MOST_OF_A_TAIL = 64 << 10
_RANK = re.compile("[0-9]{1,9}")
Exit = tuple[int | None, int | None]
"""Exit code and signal."""


@dataclass(frozen=True)
class ReportedError:
    code: str = ""
    message: str = ""
    cause: str = ""
    said: str = ""  # the name in the wire format
    """`cause` is why an environment could not be built, `said` the output of the tool."""


@dataclass(frozen=True)
class LastLines:
    """Last lines of a process's log, and the exception that it raised."""

    tail: str
    raised: str


@dataclass(frozen=True)
class NodeTaskRank:
    rank: int
    role: str
    log: str


@dataclass(frozen=True)
class NodeReport:
    """One report. A field that was not sent is None or empty. `raw` is stored as it is, unknown fields included."""

    state: str
    node: int = 0
    message: str = ""
    lock: str = ""
    environment_key: str = ""
    started_at: datetime | None = None
    outcome: str = ""
    """One of OUTCOMES if the report is of an end."""
    error: ReportedError | None = None
    exit_code: int | None = None
    signal: int | None = None
    oom: bool | None = None
    phase: str | None = None
    rank: int | None = None
    tail: str | None = None
    undelivered: int | None = None
    failed_at: datetime | None = None
    failed_node: int | None = None
    """Node of the failure: a launcher also reports failures of ranks on other nodes."""
    log: str = ""
    is_lost: bool = False
    """True if its node is gone."""
    why: str | None = None
    """Why the node is gone."""
    address: str = ""
    is_essential: bool = True
    warnings: tuple[str, ...] = ()
    outputs: Mapping[str, int] = field(default_factory=dict)
    """Number of files of each output."""
    last_lines: Mapping[str, LastLines] = field(default_factory=dict)
    """Last log lines by rank."""
    ranks: tuple[NodeTaskRank, ...] = ()
    exits: Mapping[int, Exit] = field(default_factory=dict)
    """Exit code and signal by rank."""
    raw: JsonObject = field(default_factory=dict, compare=False)

    @classmethod
    def parse(cls, raw: JsonObject) -> "NodeReport":
        """Parse a report; long texts are cut. Raises InvalidArgument naming the wrong field."""
        state = raw.get("state")
        if state not in STATES:
            raise _wrong("state", f"one of {', '.join(sorted(STATES))}", state) if "state" in raw else _missing("state")
        report = _read(str(state), raw)
        if state in _ENDS and not report.outcome:
            raise InvalidArgument(f"outcome is missing: an end has one of {', '.join(OUTCOMES)}.")
        return report

    @classmethod
    def of_part(cls, state: str, facts: JsonObject) -> "NodeReport":
        """Report from the stored facts of a node task in a state."""
        return _read(state, facts)


@dataclass(frozen=True)
class ReportAnswer:
    """Instructions for the supervisor in reply to its report."""

    cancel: bool
    end_as: str
    """Outcome to report if it was told to stop before it ended."""
    roster: tuple[JsonObject, ...] | None
    """What the nodes need to know of each other, by node; None until all are ready."""


def _read(state: str, raw: JsonObject) -> NodeReport:
    message, tail = _text(raw, "message"), _text(raw, "tail")
    if message and len(message) > _MOST_LETTERS:
        message = message[:_MOST_LETTERS]
        raw = {**raw, "message": message}
    if tail and len(tail) > _MOST_OF_A_TAIL:
        tail = tail[-_MOST_OF_A_TAIL:]
        raw = {**raw, "tail": tail}
    outcome, error, outputs = raw.get("outcome"), raw.get("error"), raw.get("outputs")
    last_lines, exits = raw.get("last_lines"), raw.get("exits")
    failure = None if error is None else _object(error, "error")
    if outcome is not None and outcome not in OUTCOMES:
        raise _wrong("outcome", f"one of {', '.join(OUTCOMES)}", outcome)
    return NodeReport(
        state=state,
        node=_whole(raw.get("node", 0), "node"),
        message=message or "",
        tail=tail,
        lock=_text(raw, "lock") or "",
        environment_key=_text(raw, "environment_key") or "",
        log=_text(raw, "log") or "",
        phase=_text(raw, "phase"),
        address=_text(raw, "address") or "",
        why=_text(raw, "why"),
        rank=_number(raw, "rank"),
        exit_code=_number(raw, "exit_code"),
        signal=_number(raw, "signal"),
        failed_node=_number(raw, "failed_node"),
        undelivered=_number(raw, "undelivered"),
        outcome=str(outcome or ""),
        error=_error(failure) if failure else None,
        oom=_flag(raw, "oom"),
        started_at=_time(raw, "started_at"),
        failed_at=_time(raw, "failed_at"),
        is_lost=_flag(raw, "lost") or False,
        is_essential=bool(raw.get("is_essential", True)),
        warnings=tuple(map(str, _list(raw, "warnings"))),
        outputs={} if outputs is None else _outputs(outputs),
        last_lines={} if last_lines is None else _last_lines(last_lines),
        ranks=tuple(map(_rank, _list(raw, "ranks"))),
        exits={} if exits is None else _exits(exits),
        raw=raw,
    )


def _wrong(name: str, expected: str, value: object) -> InvalidArgument:
    problem = f"must be {expected}, got {shown(value)}"
    return InvalidArgument(f"{name} {problem}.", fields=[{"path": name, "problem": problem}])


def _missing(name: str) -> InvalidArgument:
    return InvalidArgument(f"{name}: is missing.", fields=[{"path": name, "problem": "is missing"}])


def _text(raw: JsonObject, name: str) -> str | None:
    value = raw.get(name)
    if value is not None and not isinstance(value, str):
        raise _wrong(name, "a text", value)
    return value


def _whole(value: JsonValue, name: str) -> int:
    if not is_whole(value):
        raise _wrong(name, "a whole number", value)
    return value


def _number(raw: JsonObject, name: str) -> int | None:
    value = raw.get(name)
    return None if value is None else _whole(value, name)


def _flag(raw: JsonObject, name: str) -> bool | None:
    value = raw.get(name)
    if value is not None and not isinstance(value, bool):
        raise _wrong(name, "true or false", value)
    return value


def _time(raw: JsonObject, name: str) -> datetime | None:
    value = raw.get(name)
    if value is None:
        return None
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise _wrong(name, "an ISO time with its zone", value)
    return found


def _object(value: JsonValue, name: str, expected: str = "an object") -> JsonObject:
    if not isinstance(value, Mapping):
        raise _wrong(name, expected, value)
    return value


def _list(raw: JsonObject, name: str) -> Sequence[JsonValue]:
    value = raw.get(name)
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        raise _wrong(name, "a list", value)
    return value


def _error(given: JsonObject) -> ReportedError:
    return ReportedError(*(str(given.get(name) or "") for name in ("code", "message", "cause", "said")))


def _outputs(value: JsonValue) -> dict[str, int]:
    expected = "an object of numbers"
    given = _object(value, "outputs", expected)
    if not all(map(is_whole, given.values())):
        raise _wrong("outputs", expected, value)
    return {name: _whole(files, "outputs") for name, files in given.items()}


def _last_lines(value: JsonValue) -> dict[str, LastLines]:
    expected = "an object of objects"
    given = _object(value, "last_lines", expected)
    found = {}
    for rank, lines in given.items():
        fields = _object(lines, "last_lines", expected)
        found[rank] = LastLines(str(fields.get("tail") or ""), str(fields.get("raised") or ""))
    return found


def _rank(value: JsonValue) -> NodeTaskRank:
    if not isinstance(value, list | tuple) or len(value) != 3:
        raise _wrong("ranks", "a list of [rank, role, log]", value)
    return NodeTaskRank(_whole(value[0], "ranks"), str(value[1]), str(value[2]))


def _exits(value: JsonValue) -> dict[int, Exit]:
    expected = "an object of [exit code, signal] by rank"
    found: dict[int, Exit] = {}
    for rank, pair in _object(value, "exits", expected).items():
        if not _RANK.fullmatch(rank) or not isinstance(pair, list | tuple) or len(pair) != 2:
            raise _wrong("exits", expected, value)
        code, signal = (None if one is None else _whole(one, "exits") for one in pair)
        found[int(rank)] = (code, signal)
    return found
