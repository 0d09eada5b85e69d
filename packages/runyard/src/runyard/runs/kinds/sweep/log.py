"""The log of a sweep, and what it says of children: a line about one begins with its id and a verb, by which a service
that carries the sweep on finds what was said."""

import json
import re
import threading
from enum import StrEnum
from typing import NamedTuple

from runyard.model.runs import RunId, RunRecord, RunStatus
from runyard.model.sweeps import Trial
from runyard.ports.blobs import LogStore
from runyard.ports.clock import Clock
from runyard.runs.kinds.sweep.standing import BestSoFar, Standing

SWEEP_LOG = "azureml-logs/hyperdrive.txt"
_LONGEST = 2_000
_MARKS = re.compile(r"<(?=(START|END)>)")
_TOLD = re.compile(r"\[(\w++)\]\[INFO\](\S{1,300}+) (\w++)")
_MOST_SAID = 500


class Source(StrEnum):
    """Which part of a sweep says a line; the names are those of the original."""

    API = "API"
    GENERATOR = "GENERATOR"
    SCHEDULER = "SCHEDULER"
    CONTROLLER = "CONTROLLER"


class Told(NamedTuple):
    """How a line begins that is about one child: `[source][INFO]CHILD VERB...`."""

    source: str
    child_id: str
    verb: str


class SweepLogs:
    """Writes the logs of sweeps, a line at a time, at their end. Lines of several threads are never mixed."""

    def __init__(self, logs: LogStore, clock: Clock) -> None:
        self._logs, self._clock = logs, clock
        self._lock = threading.Lock()

    def write(self, sweep_id: RunId, source: Source, *texts: str) -> None:
        """One line for each text, whatever it holds: it can neither end a line nor begin another."""
        if not texts:
            return
        data = "".join(self._line(source, text) for text in texts).encode()
        # The store leaves out what lies below the end, so nobody else may append between the two.
        with self._lock:
            self._logs.append(sweep_id, SWEEP_LOG, self._logs.size(sweep_id, SWEEP_LOG), data)

    def told(self, sweep_id: RunId) -> set[Told]:
        """What was said of which child, so that a sweep that is carried on says the rest."""
        lines = self._logs.read(sweep_id, SWEEP_LOG).decode(errors="replace").splitlines()
        return {Told(*found.groups()) for line in lines if (found := _TOLD.search(line))}

    def _line(self, source: Source, text: str) -> str:
        at = self._clock.now().strftime("%Y-%m-%dT%H:%M:%S.%f")
        return f"<START>[{at}][{source}][INFO]{harmless(text)}<END>\n"


def harmless(text: str) -> str:
    """On one line, of bounded length, without the marks of a line; what is not printable is shown as an escape."""
    kept = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text) - _LONGEST} more characters)"
    if not kept.isprintable():
        kept = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in kept)
    return _MARKS.sub("&lt;", kept)


def sampled_line(trial: Trial) -> str:
    values = json.dumps(dict(trial.values), ensure_ascii=False, default=str)
    whence = "" if trial.resumed_from is None else f", which are those of {trial.resumed_from}"
    return f"{trial.child_id} sampled: {values}{whence}"


def scheduled_line(trial: Trial) -> str:
    return f"{trial.child_id} scheduled."


def best_line(best: BestSoFar, metric: str) -> str:
    return f"{best.run_id} leads: the best {metric} so far is {best.value!r}."


def ended_line(child: RunRecord, trial: Trial, standing: Standing) -> str:
    score, intervals, rank = (told(trial.number) for told in (standing.score, standing.intervals, standing.rank))
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


def no_number_text(metric: str, shown: str = "") -> str:
    """How it begins where nothing is shown."""
    begin = f"The primary metric {metric!r} was logged as something else than a number"
    return f"{begin}, {shown:.200}: that is no interval. Log an int or a float." if shown else begin


def cause_of(child: RunRecord) -> str:
    """The code and the first words of its error."""
    error = (child.error or {}).get("error") or {}
    return f"{error.get('code') or 'Error'}: {cause_text(error.get('message')) or 'it does not say why'}"


def cause_text(message: object) -> str:
    """The first line of an error's message; where that announces what follows, what follows too, on one line."""
    lines = [line.strip() for line in str(message or "").strip().splitlines() if line.strip()]
    if not lines:
        return ""
    return (" ".join(lines) if lines[0].endswith(":") else lines[0])[:_MOST_SAID]
