import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from runyard.errors import Conflict, InvalidArgument
from runyard.model.journal import ParsedJournal, parse_journal
from runyard.model.metrics import MetricBatch
from runyard.model.names import check_journal_name, journal_rank
from runyard.model.runs import RunEvent, RunId, RunRecord
from runyard.ports.clock import Clock
from runyard.ports.stores import MetricStore, RunStore

_TURNS = 64


class Delivered(NamedTuple):
    """A stretch of a journal that is stored: from byte `start` to `end`, logged by `rank`."""

    journal: str
    start: int
    end: int
    rank: int
    batches: Sequence[MetricBatch]


Heard = Callable[[RunRecord, Delivered], None]
"""Told of a run, as it was shortly before, what it logged. It may be told twice, and of two stretches in any order."""


def nobody(run: RunRecord, delivered: Delivered) -> None:
    """Hears nothing."""


class Journals:
    """Takes in what scripts logged. Delivering the same bytes twice is harmless.

    Who listens hears of it at once, in the thread that delivers.
    """

    def __init__(self, runs: RunStore, metrics: MetricStore, clock: Clock, heard: Heard = nobody) -> None:
        self._runs, self._metrics, self._clock, self._heard = runs, metrics, clock, heard
        self._turns = [threading.Lock() for _ in range(_TURNS)]

    def offsets(self, run_id: RunId) -> dict[str, int]:
        self._runs.get(run_id)
        return dict(self._metrics.offsets(run_id))

    def append(self, run_id: RunId, journal: str, offset: int, data: bytes) -> int:
        """Store lines that begin at byte `offset`; returns up to where the journal is stored. A gap is Conflict."""
        check_journal_name(journal, run_id)
        run = self._runs.get(run_id)
        # Two deliveries of one journal at once would set its tags in any order.
        with self._turns[hash(journal) % _TURNS]:
            delivered = self._store(run_id, journal, offset, data)
        if delivered.end > delivered.start:
            self._heard(run, delivered)
        return delivered.end

    def _store(self, run_id: RunId, journal: str, offset: int, data: bytes) -> Delivered:
        """Returns what was stored: an empty stretch where nothing of it is new."""
        stored, rank = self._metrics.offset(run_id, journal), journal_rank(journal)
        if not 0 <= offset <= stored:
            raise Conflict(
                f"Journal {journal!r} is stored up to byte {stored}; bytes from {offset} leave a gap.", offset=stored
            )
        fresh = data[stored - offset :]
        if not fresh:
            return Delivered(journal, stored, stored, rank, ())
        if not fresh.endswith(b"\n"):
            raise InvalidArgument("A stretch of a journal ends at the end of a line.", hint="Send whole lines.")
        parsed = parse_journal(fresh)
        self._annotate(run_id, parsed)
        delivered = Delivered(journal, stored, stored + len(fresh), rank, parsed.batches)
        # After all else, since it moves the offset: after a crash before it all of this is delivered again.
        self._metrics.append(
            run_id, journal, delivered.start, delivered.end, parsed.batches, parsed.dropped, rank=delivered.rank
        )
        return delivered

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
        for key, value in parsed.properties.items():
            try:
                self._runs.update(run_id, properties={key: value})
            except Conflict as refused:
                self._note(run_id, refused.problem)
        if parsed.bad_lines:
            self._note(run_id, f"{parsed.bad_lines} lines of a journal could not be read and were left out.")

    def _note(self, run_id: RunId, text: str) -> None:
        self._runs.add_event(run_id, RunEvent(self._clock.now(), "note", text))
