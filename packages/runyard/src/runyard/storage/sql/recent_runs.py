import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import orjson

from runyard.core.records.runs import RunEvent, RunId, RunRecord

_MOST_RUNS = 256
_MOST_BYTES = 32 * 1024
"""Size of a run as JSON above which it is not kept: definitions and locks may have megabytes."""


@dataclass(frozen=True)
class RecentRun:
    """A run as a read of the database would return it."""

    run: RunRecord
    events: Sequence[RunEvent] | None = None
    """All its events, oldest first; None if the database must be asked."""
    has_no_uses: bool = False
    """True if it has no dataset uses; False if the database must be asked."""


class RunWrite:
    """One write of a run: what to keep of it once it is committed."""

    def __init__(self, known: Callable[[], RecentRun | None]) -> None:
        self.known = known
        """Returns the run as the last write left it, or None if the database must be asked. Call it in the transaction,
        so that on SQLite no other write comes in between."""
        self.written: RecentRun | None = None


class RecentRuns:
    """The runs that this process wrote last, so that most reads of them need no query. Thread-safe.

    Only a service that holds the lease of its database may use them: it is the only writer. Only writers fill it, after
    their commit, so a slow reader cannot put an old row back. Whatever changes rows of runs in another way calls
    `forget` after its commit, before it returns.
    """

    def __init__(self, may_trust: Callable[[], bool]) -> None:
        """`may_trust` returns whether this process certainly holds the lease."""
        self._may_trust = may_trust
        self._lock = threading.Lock()
        self._runs: OrderedDict[RunId, RecentRun] = OrderedDict()
        self._forgotten = 0
        """Number of calls of `forget`. A write that began before one is not kept: it may not know of the change."""

    def get(self, run_id: RunId) -> RecentRun | None:
        found = self._runs.get(run_id)
        return found if found is not None and self._may_trust() else None

    @contextmanager
    def writing(self, run_id: RunId) -> Iterator[RunWrite]:
        """Wrap a whole transaction: keeps `written` after it, or forgets the run if the transaction fails, since it may
        have been committed all the same."""
        with self._lock:
            forgotten = self._forgotten
        write = RunWrite(lambda: self.get(run_id))
        try:
            yield write
        except BaseException:
            self.forget(run_id)
            raise
        if write.written is not None:
            self._keep(write.written, forgotten)

    def forget(self, *run_ids: RunId) -> None:
        with self._lock:
            self._forgotten += 1
            for run_id in run_ids:
                self._runs.pop(run_id, None)

    def forget_all(self) -> None:
        with self._lock:
            self._forgotten += 1
            self._runs.clear()

    def _keep(self, new: RecentRun, forgotten: int) -> None:
        with self._lock:
            before = self._runs.pop(new.run.id, None)
            if self._forgotten != forgotten or not self._may_trust() or not _is_small(new.run):
                return
            if before is not None and before.run.version > new.run.version:
                new = before  # two writers came here in the other order
            self._runs[new.run.id] = new
            if len(self._runs) > _MOST_RUNS:
                self._runs.popitem(last=False)


def _is_small(run: RunRecord) -> bool:
    parts = [run.definition.raw, run.tags, run.properties, run.error, run.exit_facts, run.warnings, run.nodes]
    texts = (run.environment_lock, run.message, run.description, run.display_name)
    try:
        return len(orjson.dumps(parts)) + sum(map(len, texts)) <= _MOST_BYTES
    except TypeError:  # numbers and texts that orjson cannot write: rare, so not worth a slower way
        return False
