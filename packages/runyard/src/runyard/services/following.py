"""What a follower of a run is told next. Knows nothing of sockets: the HTTP edge asks again after each wake."""

import codecs
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from runyard.model.runs import RunId, RunRecord, RunStatus
from runyard.ports.blobs import LogStore
from runyard.ports.stores import RunStore

CHUNK_BYTES = 256 * 1024
_NUMBERED_LOG = re.compile(r"azureml-logs/(\d\d)[^/]*\.txt")
_FIRST_RANK = re.compile(r"(?:rank|worker|driver_log|process)[_-]0+\.txt$")


@dataclass(frozen=True)
class StatusLine:
    status: RunStatus
    message: str


@dataclass(frozen=True)
class LogText:
    log: str
    offset: int
    next: int
    """Where to go on: bytes that are no text make it differ from the length of `text`."""
    text: str


Told = StatusLine | LogText


def streamed_log(paths: Iterable[str]) -> str | None:
    """The log that a follower sees: the highest number, and of its ranks the first."""
    numbered = sorted(path for path in paths if _NUMBERED_LOG.fullmatch(path))
    if not numbered:
        return None
    highest = numbered[-1][: len("azureml-logs/NN")]
    group = [path for path in numbered if path.startswith(highest)]
    return next((path for path in group if _FIRST_RANK.search(path)), group[-1])


class Follower:
    """Call `step` after every change of the run. Once `ended` holds the record, all was told."""

    def __init__(
        self, runs: RunStore, logs: LogStore, run_id: RunId, *, log: str | None = None, offset: int = 0, tail: int = 0
    ) -> None:
        """Begins at `offset` of `log`, or at the newest log: from its start, or `tail` bytes before its end."""
        self._runs, self._logs, self._run_id = runs, logs, run_id
        self._log, self._offset, self._tail = log, offset, tail
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._told_status: StatusLine | None = None
        self.ended: RunRecord | None = None
        self.has_more = False
        """True when more can be told at once, without waiting for a change."""

    def step(self) -> Sequence[Told]:
        # The record is read before the logs: what a run logged before it ended is then surely seen.
        record = self._runs.get(self._run_id)
        told: list[Told] = []
        status = StatusLine(record.status, record.message)
        if status != self._told_status:
            self._told_status = status
            told.append(status)
        self.has_more = False
        newest = streamed_log(self._logs.sizes(self._run_id))
        if newest is not None:
            told += self._read(newest, closing=record.status.is_terminal)
        if record.status.is_terminal and not self.has_more:
            self.ended = record
        return told

    def _read(self, newest: str, *, closing: bool) -> list[Told]:
        if self._log is None:
            self._log = newest
            self._offset = max(0, self._logs.size(self._run_id, newest) - self._tail) if self._tail else 0
        moves_on = newest > self._log
        told: list[Told] = []
        data = self._logs.read(self._run_id, self._log, self._offset, CHUNK_BYTES)
        drained = len(data) < CHUNK_BYTES
        text = self._decoded(data, final=drained and (moves_on or closing))
        if text is not None:
            told.append(text)
        if not drained:
            self.has_more = True
        elif moves_on:
            self._log, self._offset, self.has_more = newest, 0, True
            self._decoder.reset()
        return told

    def _decoded(self, data: bytes, *, final: bool) -> LogText | None:
        pending = len(self._decoder.getstate()[0])
        text = self._decoder.decode(data, final)
        start = self._offset - pending
        self._offset += len(data)
        told_to = self._offset - len(self._decoder.getstate()[0])
        return LogText(str(self._log), start, told_to, text) if text else None
