import logging
from collections.abc import Sequence
from typing import Any

from runyard.model.runs import QueuedRun, RunEvent, RunId, RunQuery, RunRecord, RunStatus
from runyard.ports.blobs import LogStore
from runyard.ports.stores import RunStore
from runyard.runs.attempt_fence import AttemptFence
from runyard.runs.history.notifier import Notifier, end_of

log = logging.getLogger(__name__)


class NotifyingRunStore:
    """A RunStore over `inner`. After each write it wakes followers and tells the fence the current attempt."""

    def __init__(self, inner: RunStore, notifier: Notifier, fence: AttemptFence) -> None:
        self._inner, self._notifier, self._fence = inner, notifier, fence

    def create(self, run: RunRecord) -> RunRecord:
        return self._inner.create(run)

    def get(self, run_id: RunId) -> RunRecord:
        return self._inner.get(run_id)

    def move(self, seen: RunRecord, to: RunStatus, **changes: Any) -> RunRecord:
        moved = self._inner.move(seen, to, **changes)
        log.info("%s after %s.", to.value, seen.status.value, extra={"run": seen.id})
        self._fence.note(moved)
        self._notifier.changed(seen.id)
        if to.is_terminal:
            self._notifier.ended(moved)
        return moved

    def update(self, run_id: RunId, **changes: Any) -> RunRecord:
        updated = self._inner.update(run_id, **changes)
        self._fence.note(updated)
        self._notifier.changed(run_id)
        return updated

    def list(self, query: RunQuery) -> Sequence[RunRecord]:
        return self._inner.list(query)

    def unfinished(self) -> Sequence[RunRecord]:
        return self._inner.unfinished()

    def queue(self, workspace: str, target: str, *, limit: int) -> Sequence[QueuedRun]:
        return self._inner.queue(workspace, target, limit=limit)

    def descendants(self, run_id: RunId) -> Sequence[RunRecord]:
        return self._inner.descendants(run_id)

    def add_event(self, run_id: RunId, event: RunEvent) -> None:
        self._inner.add_event(run_id, event)
        self._notifier.changed(run_id)

    def events(self, run_id: RunId) -> Sequence[RunEvent]:
        return self._inner.events(run_id)

    def delete(self, *run_ids: RunId) -> None:
        self._inner.delete(*run_ids)
        for run_id in run_ids:
            self._fence.forget(run_id)
            self._notifier.changed(run_id)
            self._notifier.changed(end_of(run_id))


class NotifyingLogStore:
    """A LogStore over `inner`: each append wakes the run's followers."""

    def __init__(self, inner: LogStore, notifier: Notifier) -> None:
        self._inner, self._notifier = inner, notifier

    def append(self, run_id: str, path: str, offset: int, data: bytes) -> int:
        end = self._inner.append(run_id, path, offset, data)
        self._notifier.changed(run_id)
        return end

    def size(self, run_id: str, path: str) -> int:
        return self._inner.size(run_id, path)

    def sizes(self, run_id: str) -> dict[str, int]:
        return self._inner.sizes(run_id)

    def read(self, run_id: str, path: str, offset: int = 0, limit: int | None = None) -> bytes:
        return self._inner.read(run_id, path, offset, limit)

    def seal(self, run_id: str) -> None:
        self._inner.seal(run_id)

    def delete(self, run_id: str) -> None:
        self._inner.delete(run_id)
