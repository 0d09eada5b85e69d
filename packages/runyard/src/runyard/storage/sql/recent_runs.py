import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from runyard.core.records.runs import RunId, RunRecord

_MOST_KEPT = 500
_COUNTERS = 256


class Write:
    """A write that goes on. Set `record` to the run as it was written, inside the transaction or after it."""

    def __init__(self) -> None:
        self.record: RunRecord | None = None


class RecentRuns:
    """Whole records of runs that were read or written lately. Correct only in a process that is the only writer.

    A record is kept only if no write of its run began or ended since it was read, and no other write beside the one
    that made it. So neither a slow reader, two writers at once, nor a write of unknown outcome leaves an old record.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[RunId, RunRecord] = OrderedDict()
        self._lock = threading.Lock()
        # Runs share counters: one of another run costs a read, never an old record.
        self._changes = [0] * _COUNTERS

    def find(self, run_id: RunId) -> RunRecord | None:
        with self._lock:
            found = self._kept.get(run_id)
            if found is not None:
                self._kept.move_to_end(run_id)
            return found

    def mark(self, run_id: RunId) -> int:
        """Take one before the read whose record is to be kept."""
        return self._changes[_counter(run_id)]

    def keep(self, run: RunRecord, mark: int) -> None:
        with self._lock:
            if self._changes[_counter(run.id)] == mark:
                self._set(run)

    @contextmanager
    def writing(self, run_id: RunId) -> Iterator[Write]:
        """Around a whole transaction. The run's record is forgotten, and kept again from `Write.record` at the end."""
        write = Write()
        mark = self._changed(run_id)
        try:
            yield write
        except BaseException:
            self._changed(run_id)
            raise
        with self._lock:
            is_alone = self._changes[_counter(run_id)] == mark
            self._changes[_counter(run_id)] += 1
            self._kept.pop(run_id, None)
            if is_alone and write.record is not None:
                self._set(write.record)

    def _changed(self, run_id: RunId) -> int:
        with self._lock:
            self._kept.pop(run_id, None)
            self._changes[_counter(run_id)] += 1
            return self._changes[_counter(run_id)]

    def _set(self, run: RunRecord) -> None:
        self._kept[run.id] = run
        self._kept.move_to_end(run.id)
        if len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)


def _counter(run_id: RunId) -> int:
    return hash(run_id) % _COUNTERS
