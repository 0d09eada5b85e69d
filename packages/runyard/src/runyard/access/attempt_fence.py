import threading
from collections import OrderedDict
from typing import NamedTuple

from runyard.core.errors import AttemptOver, NotFound
from runyard.core.ports.stores import RunStore
from runyard.core.records.runs import AttemptId, RunId, RunRecord, run_of

_MOST_KNOWN = 10_000


class _RunState(NamedTuple):
    version: int
    ticket: str
    ended_as: str
    """Terminal status; empty while the run goes on."""


class AttemptFence:
    """Refuses writes of nodes whose attempt is not the current one of its run.

    Keeps the runs that were written last in memory: nodes are checked with every request, which should not cost a
    read of the database.
    """

    def __init__(self, runs: RunStore) -> None:
        self._runs = runs
        self._known: OrderedDict[RunId, _RunState] = OrderedDict()
        self._lock = threading.Lock()

    def note(self, run: RunRecord) -> None:
        """Remember the run as just written; an older version than the known one is ignored."""
        with self._lock:
            before = self._known.get(run.id)
            if before is not None and before.version > run.version:
                return
            if not run.ticket:  # no attempt is running
                self._known.pop(run.id, None)
                return
            self._known[run.id] = _state_of(run)
            self._known.move_to_end(run.id)
            if len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)

    def forget(self, run_id: RunId) -> None:
        with self._lock:
            self._known.pop(run_id, None)

    def knows(self, attempt_id: AttemptId) -> bool:
        """Whether `check` needs no read of the database."""
        return run_of(attempt_id) in self._known

    def check(self, attempt_id: AttemptId) -> None:
        """Raise AttemptOver if the run has ended or is gone, or another attempt of it has begun."""
        run_id = run_of(attempt_id)
        known = self._known.get(run_id) or self._read(run_id)
        if known is None:
            raise AttemptOver(f"Run {run_id} is gone, and attempt {attempt_id} with it.")
        if known.ended_as:
            raise AttemptOver(f"Run {run_id} has ended as {known.ended_as}, and attempt {attempt_id} with it.")
        if known.ticket != attempt_id:
            raise AttemptOver(f"Attempt {attempt_id} was given up: run {run_id} goes on elsewhere.")

    def _read(self, run_id: RunId) -> _RunState | None:
        try:
            run = self._runs.get(run_id)
        except NotFound:
            return None
        self.note(run)
        return _state_of(run)


def _state_of(run: RunRecord) -> _RunState:
    return _RunState(run.version, run.ticket, run.status.value if run.status.is_terminal else "")
