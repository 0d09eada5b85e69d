"""Streams the status and logs of a run. Knows nothing of sockets: the HTTP layer calls `step` after each wake."""

import codecs
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from runyard.access.authorization import Access
from runyard.core.policy import Action
from runyard.core.ports.blobs import LogStore
from runyard.core.ports.stores import RunStore
from runyard.core.principal import Principal
from runyard.core.records.runs import RunId, RunRecord, RunStatus
from runyard.runs.history.logs import RankLog, rank_logs, streamed_log

if TYPE_CHECKING:
    from runyard.runs.kinds.registry import RunKinds

CHUNK_BYTES = 256 * 1024
CHUNK_BYTES_OF_A_RANK = 64 * 1024


@dataclass(frozen=True)
class StatusLine:
    status: RunStatus
    message: str


@dataclass(frozen=True)
class LogText:
    log: str
    offset: int
    next: int
    """Offset to continue at. Bytes that are not UTF-8 make it differ from `offset` plus the length of `text`."""
    text: str
    rank: RankLog | None = None
    """Rank that wrote the log; set by `RankLogFollower` only."""


StreamItem = StatusLine | LogText


class LogFollower(Protocol):
    """Call `step` after every change of the run. Once `ended` is set, everything was returned."""

    ended: RunRecord | None
    has_more: bool
    """True if `step` can return more at once, without a change of the run."""

    def step(self) -> Sequence[StreamItem]: ...


class LogFollowers:
    def __init__(self, runs: RunStore, logs: LogStore, kinds: "RunKinds", access: Access) -> None:
        self._runs, self._logs, self._kinds, self._access = runs, logs, kinds, access

    def of_run(
        self, who: Principal, run_id: RunId, *, log: str | None = None, offset: int = 0, tail: int = 0
    ) -> "RunLogFollower":
        """See `RunLogFollower`."""
        kind = self._kinds.of(self._access.run(who, Action.READ_RUN, run_id))
        return RunLogFollower(self._runs, self._logs, run_id, log=log, offset=offset, tail=tail, own=kind.log)

    def of_ranks(
        self, who: Principal, run_id: RunId, *, rank: int | None, offsets: Mapping[str, int]
    ) -> "RankLogFollower":
        """See `RankLogFollower`."""
        self._access.run(who, Action.READ_RUN, run_id)
        return RankLogFollower(self._runs, self._logs, run_id, rank=rank, offsets=offsets)


class RunLogFollower:
    """Follows the newest log of a run; of several ranks, the first."""

    def __init__(
        self,
        runs: RunStore,
        logs: LogStore,
        run_id: RunId,
        *,
        log: str | None = None,
        offset: int = 0,
        tail: int = 0,
        own: str = "",
    ) -> None:
        """Begin at `offset` of `log`. Without `log`, begin with the newest one, at its start or `tail` bytes before its
        end. `own` is the log of a run without a process."""
        self._logs, self._run_id, self._tail, self._own = logs, run_id, tail, own
        self._status = _StatusReader(runs, run_id)
        self._reader = None if log is None else LogReader(logs, run_id, log, offset)
        self.ended: RunRecord | None = None
        self.has_more = False

    def step(self) -> Sequence[StreamItem]:
        # Read the record before the logs: then everything logged before the end is seen.
        record, items = self._status.step()
        is_over = record.status.is_terminal
        self.has_more = False
        newest = streamed_log(self._logs.sizes(self._run_id), is_over=is_over, own=self._own)
        if newest is not None:
            items += self._read(newest, closing=is_over)
        if is_over and not self.has_more:
            self.ended = record
        return items

    def _read(self, newest: str, *, closing: bool) -> list[StreamItem]:
        if self._reader is None:
            offset = max(0, self._logs.size(self._run_id, newest) - self._tail) if self._tail else 0
            self._reader = LogReader(self._logs, self._run_id, newest, offset)
        moves_on = newest > self._reader.path
        text = self._reader.read(CHUNK_BYTES, closing=closing or moves_on)
        if not self._reader.is_drained:
            self.has_more = True
        elif moves_on:
            self._reader, self.has_more = LogReader(self._logs, self._run_id, newest, 0), True
        return [] if text is None else [text]


class RankLogFollower:
    """Follows the logs of all ranks, or of one."""

    def __init__(
        self, runs: RunStore, logs: LogStore, run_id: RunId, *, rank: int | None, offsets: Mapping[str, int]
    ) -> None:
        """`offsets`: where to begin in each log. `rank`: None for all."""
        self._logs, self._run_id, self._rank, self._offsets = logs, run_id, rank, dict(offsets)
        self._status = _StatusReader(runs, run_id)
        self._readers: dict[str, LogReader] = {}
        self.ended: RunRecord | None = None
        self.has_more = False

    def step(self) -> Sequence[StreamItem]:
        record, items = self._status.step()
        is_over = record.status.is_terminal
        self.has_more = False
        for log in rank_logs(self._logs.sizes(self._run_id), record.definition):
            if self._rank is None or log.rank == self._rank:
                reader = self._reader(log)
                text = reader.read(CHUNK_BYTES_OF_A_RANK, closing=is_over)
                items += [] if text is None else [text]
                self.has_more = self.has_more or not reader.is_drained
        if is_over and not self.has_more:
            self.ended = record
        return items

    def _reader(self, log: RankLog) -> "LogReader":
        if log.path not in self._readers:
            offset = self._offsets.get(log.path, 0)
            self._readers[log.path] = LogReader(self._logs, self._run_id, log.path, offset, rank=log)
        return self._readers[log.path]


class LogReader:
    """Reads one log from an offset on, as text that is never cut within a character."""

    def __init__(self, logs: LogStore, run_id: RunId, path: str, offset: int, *, rank: RankLog | None = None) -> None:
        self._logs, self._run_id, self.path, self._offset, self._rank = logs, run_id, path, offset, rank
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.is_drained = False
        """Whether the last read reached the end of the log."""

    def read(self, limit: int, *, closing: bool) -> LogText | None:
        """Next piece of text; None if there is none. `closing`: nothing more will be written."""
        data = self._logs.read(self._run_id, self.path, self._offset, limit)
        self.is_drained = len(data) < limit
        start = self._offset - self._pending
        text = self._decoder.decode(data, closing and self.is_drained)
        self._offset += len(data)
        return LogText(self.path, start, self._offset - self._pending, text, self._rank) if text else None

    @property
    def _pending(self) -> int:
        return len(self._decoder.getstate()[0])


class _StatusReader:
    """Reads the record; returns a line if its status or message has changed."""

    def __init__(self, runs: RunStore, run_id: RunId) -> None:
        self._runs, self._run_id = runs, run_id
        self._last: StatusLine | None = None

    def step(self) -> tuple[RunRecord, list[StreamItem]]:
        record = self._runs.get(self._run_id)
        status = StatusLine(record.status, record.message)
        if status == self._last:
            return record, []
        self._last = status
        return record, [status]
