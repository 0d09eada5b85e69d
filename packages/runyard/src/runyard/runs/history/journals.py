import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from runyard.access.authorization import Access
from runyard.core.errors import Conflict, InvalidArgument
from runyard.core.names import check_journal_name, journal_rank
from runyard.core.policy import Action
from runyard.core.ports.clock import Clock
from runyard.core.ports.stores import MetricStore, RunStore
from runyard.core.principal import Principal
from runyard.core.records.metrics import MetricBatch
from runyard.core.records.runs import RunEvent, RunId, RunRecord
from runyard.runs.history.journal_lines import ParsedJournal, parse_journal

MOST_METRIC_NAMES = 20_000
_NAMES_AT_ONCE = 500
"""Metric names in one transaction: more would block other writers for too long."""
_PAUSE_SECONDS = 0.001


class Delivered(NamedTuple):
    """A stored piece of a journal: bytes `start` to `end`, logged by `rank`."""

    journal: str
    start: int
    end: int
    rank: int
    batches: Sequence[MetricBatch]


OnDelivered = Callable[[RunRecord, Delivered], None]
"""Callback(run, delivered). May be called twice, and out of order; `run` may be slightly out of date."""


def ignore_delivered(run: RunRecord, delivered: Delivered) -> None:
    """Do nothing."""


class Journals:
    """Stores the journals of scripts: metrics, tags, properties and errors. Delivering the same bytes twice is safe.

    `on_delivered` is called after each stored piece, in the thread that delivers.
    """

    def __init__(
        self,
        runs: RunStore,
        metrics: MetricStore,
        clock: Clock,
        access: Access,
        on_delivered: OnDelivered = ignore_delivered,
        most_names: int = MOST_METRIC_NAMES,
    ) -> None:
        self._runs, self._metrics, self._clock, self._on_delivered = runs, metrics, clock, on_delivered
        self._access, self._most_names = access, most_names
        self._locks: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()
        self._locks_guard = threading.Lock()

    def offsets(self, who: Principal, run_id: RunId) -> dict[str, int]:
        """Number of bytes stored of each journal."""
        self._access.run(who, Action.SEE_DELIVERED, run_id)
        return dict(self._metrics.offsets(run_id))

    def append(self, who: Principal, run_id: RunId, journal: str, offset: int, data: bytes) -> int:
        """Store lines that begin at byte `offset`; return the number of bytes stored. Raises Conflict for a gap."""
        run = self._access.run(who, Action.DELIVER_RUN, run_id)
        check_journal_name(journal, run_id)
        # Two concurrent deliveries of one journal could set its tags in the wrong order.
        with self._lock_of(journal):
            stored = self._metrics.offset(run_id, journal)
            if not 0 <= offset <= stored:
                raise Conflict(
                    f"Journal {journal!r} is stored up to byte {stored}; bytes from {offset} leave a gap.",
                    offset=stored,
                )
            pieces = self._store(run_id, journal, stored, data[stored - offset :])
        for delivered in pieces:
            self._on_delivered(run, delivered)
        return pieces[-1].end if pieces else stored

    def _lock_of(self, journal: str) -> threading.Lock:
        with self._locks_guard:
            return self._locks.setdefault(journal, threading.Lock())

    def _store(self, run_id: RunId, journal: str, start: int, fresh: bytes) -> Sequence[Delivered]:
        if fresh and not fresh.endswith(b"\n"):
            raise InvalidArgument("A stretch of a journal ends at the end of a line.", hint="Send whole lines.")
        stored: list[Delivered] = []
        for piece, parsed in _pieces(fresh):
            if stored:
                time.sleep(_PAUSE_SECONDS)  # or the waiting writers would never get the write lock
            delivered = Delivered(journal, start, start + len(piece), journal_rank(journal), parsed.batches)
            self._annotate(run_id, parsed)
            # Last, since it moves the offset: after a crash before it, the piece is delivered again.
            left_out = self._metrics.append(
                run_id,
                journal,
                delivered.start,
                delivered.end,
                parsed.batches,
                parsed.dropped,
                rank=delivered.rank,
                most_names=self._most_names,
            )
            if left_out:
                self._runs.update(run_id, warnings=(_too_many_names(self._most_names),))
            stored.append(delivered)
            start = delivered.end
        return stored

    def _annotate(self, run_id: RunId, parsed: ParsedJournal) -> None:
        changes: dict[str, Any] = {}
        if parsed.tags:
            changes["tags"] = parsed.tags
        if parsed.display_name is not None:
            changes["display_name"] = parsed.display_name
        if parsed.errors:
            changes["error"] = {"error": {"messageParameters": {}, "details": [], **parsed.errors[-1]}}
        if changes:
            self._runs.update(run_id, **changes)
        self._set_properties(run_id, dict(parsed.properties))
        if parsed.bad_lines:
            self._note(run_id, f"{parsed.bad_lines} lines of a journal could not be read and were left out.")

    def _set_properties(self, run_id: RunId, wanted: dict[str, str]) -> None:
        """Set all properties in one write. A property that has another value keeps it."""
        while wanted:
            try:
                self._runs.update(run_id, properties=wanted)
                return
            except Conflict as refused:
                there = self._runs.get(run_id).properties
                left = {key: value for key, value in wanted.items() if there.get(key, value) == value}
                if len(left) == len(wanted):
                    raise
                others = len(wanted) - len(left) - 1
                self._note(run_id, refused.problem + (f" So it is with {others} more." if others else ""))
                wanted = left

    def _note(self, run_id: RunId, text: str) -> None:
        self._runs.add_event(run_id, RunEvent(self._clock.now(), "note", text))


def _pieces(lines: bytes) -> Iterator[tuple[bytes, ParsedJournal]]:
    """Yield whole lines with their parsed content, in pieces of at most _NAMES_AT_ONCE metric names."""
    if not lines:
        return
    parsed = parse_journal(lines)
    middle = lines.rfind(b"\n", 0, len(lines) // 2) + 1 or lines.find(b"\n", len(lines) // 2) + 1
    if len(parsed.batches) <= _NAMES_AT_ONCE or middle == len(lines):
        yield lines, parsed
        return
    yield from _pieces(lines[:middle])
    yield from _pieces(lines[middle:])


def _too_many_names(most: int) -> str:
    return (
        f"This run logs more than {most} different metric names, so points of further names were left out. "
        "Give values that belong together one name, or have the operator raise RUNYARD_MAX_METRIC_NAMES."
    )
