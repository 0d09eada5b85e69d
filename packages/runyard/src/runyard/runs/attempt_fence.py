import threading
from collections import OrderedDict
from typing import NamedTuple

from runyard.errors import AttemptOver, NotFound
from runyard.model.runs import AttemptId, RunId, RunRecord, run_of
from runyard.ports.stores import RunStore

_MOST_REMEMBERED = 10_000


class _Known(NamedTuple):
    version: int
    ticket: str
    ended_as: str
    """Empty while it goes on."""


class AttemptFence:
    """Whether an attempt is still the one of its run: what a node of another may not write any more.

    Remembers what it is told of runs, so that nodes, who ask with every request, cost no read of the database.
    """

    def __init__(self, runs: RunStore) -> None:
        self._runs = runs
        self._known: OrderedDict[RunId, _Known] = OrderedDict()
        self._lock = threading.Lock()

    def note(self, run: RunRecord) -> None:
        """The run as it was just written; an older state of it than is known changes nothing."""
        with self._lock:
            before = self._known.get(run.id)
            if before is not None and before.version > run.version:
                return
            if not run.ticket:  # no node speaks for it, or none should
                self._known.pop(run.id, None)
                return
            self._known[run.id] = _known_of(run)
            self._known.move_to_end(run.id)
            if len(self._known) > _MOST_REMEMBERED:
                self._known.popitem(last=False)

    def forget(self, run_id: RunId) -> None:
        with self._lock:
            self._known.pop(run_id, None)

    def knows(self, attempt_id: AttemptId) -> bool:
        """Whether `check` answers at once."""
        return run_of(attempt_id) in self._known

    def check(self, attempt_id: AttemptId) -> None:
        """Raises AttemptOver when the run has ended or is gone, or another attempt of it has begun."""
        run_id = run_of(attempt_id)
        known = self._known.get(run_id) or self._read(run_id)
        if known is None:
            raise AttemptOver(f"Run {run_id} is gone, and attempt {attempt_id} with it.")
        if known.ended_as:
            raise AttemptOver(f"Run {run_id} has ended as {known.ended_as}, and attempt {attempt_id} with it.")
        if known.ticket != attempt_id:
            raise AttemptOver(f"Attempt {attempt_id} was given up: run {run_id} goes on elsewhere.")

    def _read(self, run_id: RunId) -> _Known | None:
        try:
            run = self._runs.get(run_id)
        except NotFound:
            return None
        self.note(run)
        return _known_of(run)


def _known_of(run: RunRecord) -> _Known:
    return _Known(run.version, run.ticket, run.status.value if run.status.is_terminal else "")
