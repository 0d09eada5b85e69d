"""The log of a sweep. A line about a child begins with its id and a verb, by which a restarted service finds out what
was logged."""

import json
import re
import threading
from enum import StrEnum
from typing import NamedTuple

from runyard.core.ports.blobs import LogStore
from runyard.core.ports.clock import Clock
from runyard.core.records.runs import RunId, RunRecord, RunStatus
from runyard.core.records.sweeps import Trial
from runyard.runs.kinds.sweep.state import BestTrial, SweepState

SWEEP_LOG = "azureml-logs/hyperdrive.txt"
_LONGEST_LINE = 2_000
_LINE_MARKS = re.compile(r"<(?=(START|END)>)")
_CHILD_LINE = re.compile(r"\[(\w++)\]\[INFO\](\S{1,300}+) (\w++)")
_LONGEST_CAUSE = 500


class LogSource(StrEnum):
    """Part of a sweep that writes a line; the names are those of Azure ML."""

    API = "API"
    GENERATOR = "GENERATOR"
    SCHEDULER = "SCHEDULER"
    CONTROLLER = "CONTROLLER"


class LoggedLine(NamedTuple):
    """Start of a line about one child: `[source][INFO]CHILD VERB...`."""

    source: str
    child_id: str
    verb: str


class SweepLogs:
    """Appends lines to the logs of sweeps. Thread-safe: lines are never mixed."""

    def __init__(self, logs: LogStore, clock: Clock) -> None:
        self._logs, self._clock = logs, clock
        self._lock = threading.Lock()

    def write(self, sweep_id: RunId, source: LogSource, *texts: str) -> None:
        """Append one line for each text. Line breaks and marks within a text are escaped."""
        if not texts:
            return
        data = "".join(self._line(source, text) for text in texts).encode()
        # The store skips bytes before the end, so no other thread may append between `size` and `append`.
        with self._lock:
            self._logs.append(sweep_id, SWEEP_LOG, self._logs.size(sweep_id, SWEEP_LOG), data)

    def logged_lines(self, sweep_id: RunId) -> set[LoggedLine]:
        """Lines about children in the log, so that a restarted service can add the missing ones."""
        lines = self._logs.read(sweep_id, SWEEP_LOG).decode(errors="replace").splitlines()
        return {LoggedLine(*found.groups()) for line in lines if (found := _CHILD_LINE.search(line))}

    def _line(self, source: LogSource, text: str) -> str:
        at = self._clock.now().strftime("%Y-%m-%dT%H:%M:%S.%f")
        return f"<START>[{at}][{source}][INFO]{escaped_line(text)}<END>\n"


def escaped_line(text: str) -> str:
    """The text on one line: cut to _LONGEST_LINE, unprintable characters escaped, without line marks."""
    kept = text
    if len(text) > _LONGEST_LINE:
        kept = f"{text[:_LONGEST_LINE]}... ({len(text) - _LONGEST_LINE} more characters)"
    if not kept.isprintable():
        kept = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in kept)
    return _LINE_MARKS.sub("&lt;", kept)


def sampled_line(trial: Trial) -> str:
    values = json.dumps(dict(trial.values), ensure_ascii=False, default=str)
    origin = "" if trial.resumed_from is None else f", which are those of {trial.resumed_from}"
    return f"{trial.child_id} sampled: {values}{origin}"


def scheduled_line(trial: Trial) -> str:
    return f"{trial.child_id} scheduled."


def best_line(best: BestTrial, metric: str) -> str:
    return f"{best.run_id} leads: the best {metric} so far is {best.value!r}."


def ended_line(child: RunRecord, trial: Trial, state: SweepState) -> str:
    score, intervals, rank = (read(trial.number) for read in (state.score, state.intervals, state.rank))
    scored = f"best {score!r} of {intervals}" if intervals else "it never logged the primary metric"
    if rank:
        scored += f", logged by rank {rank} and never by rank 0"
    is_late = trial.stop is not None and child.status is not RunStatus.CANCELED
    late = " before its stop reached it" if is_late else ""
    cause = f" {cause_of(child)}" if child.status is RunStatus.FAILED else ""
    return f"{child.id} ended: {child.status}{late}, {scored}.{cause}"


def unjudged_text(metric: str, rank: int) -> str:
    return (
        f"No policy judged the run before its end: {metric!r} was logged by rank {rank} and never by rank 0, whose "
        "numbers alone count while it goes on. Log it on rank 0."
    )


def non_number_text(metric: str, shown: str = "") -> str:
    """Warning for a metric that is not a number; its first words if `shown` is empty."""
    begin = f"The primary metric {metric!r} was logged as something else than a number"
    return f"{begin}, {shown:.200}: that is no interval. Log an int or a float." if shown else begin


def cause_of(child: RunRecord) -> str:
    """Code and first line of the child's error."""
    error = (child.error or {}).get("error") or {}
    return f"{error.get('code') or 'Error'}: {cause_text(error.get('message')) or 'it does not say why'}"


def cause_text(message: object) -> str:
    """First line of an error message; if it ends with a colon, the following lines too, on one line."""
    lines = [line.strip() for line in str(message or "").strip().splitlines() if line.strip()]
    if not lines:
        return ""
    return (" ".join(lines) if lines[0].endswith(":") else lines[0])[:_LONGEST_CAUSE]
