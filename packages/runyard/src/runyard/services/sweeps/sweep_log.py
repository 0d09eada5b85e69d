import re
import threading
from enum import StrEnum
from typing import NamedTuple

from runyard.model.runs import RunId
from runyard.ports.blobs import LogStore
from runyard.ports.clock import Clock

SWEEP_LOG = "azureml-logs/hyperdrive.txt"
_LONGEST = 2_000
_MARKS = re.compile(r"<(?=(START|END)>)")
_TOLD = re.compile(r"\[(\w++)\]\[INFO\](\S{1,300}+) (\w++)")
_LOCKS = 16


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
        self._locks = [threading.Lock() for _ in range(_LOCKS)]

    def write(self, sweep_id: RunId, source: Source, *texts: str) -> None:
        """One line for each text, whatever it holds: it can neither end a line nor begin another."""
        if not texts:
            return
        data = "".join(self._line(source, text) for text in texts).encode()
        # The store leaves out what lies below the end, so nobody else may append between the two.
        with self._locks[hash(sweep_id) % _LOCKS]:
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
