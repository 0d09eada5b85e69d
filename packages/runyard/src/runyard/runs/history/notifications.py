import asyncio
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from runyard.access.attempt_fence import AttemptFence
from runyard.core.ports.blobs import LogStore
from runyard.core.ports.stores import RunStore
from runyard.core.records.runs import QueuedRun, RunEvent, RunId, RunQuery, RunRecord, RunStatus


def end_topic(run_id: str) -> str:
    """Topic to subscribe to for the end of a run only."""
    return f"end of {run_id}"


class Subscription:
    """Set by any change after the last `clear`, so that no change is missed between two waits."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._event.set)
        except RuntimeError:
            # The loop is closed: the service is stopping.
            return

    def clear(self) -> None:
        self._event.clear()

    async def wait(self, seconds: float) -> bool:
        """Wait for a change. False on timeout."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return False
        return True


class Notifier:
    """Wakes subscribers in the event loop when a run was written. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._followers: dict[str, set[Subscription]] = {}
        self._stopping = False
        self._end_callbacks: list[Callable[[RunRecord], None]] = []

    def on_end(self, callback: Callable[[RunRecord], None]) -> None:
        """Call `callback` with every run that ends, in the thread that ended it: it must return at once."""
        self._end_callbacks.append(callback)

    def ended(self, run: RunRecord) -> None:
        self.changed(end_topic(run.id))
        for callback in self._end_callbacks:
            callback(run)

    @contextmanager
    def following(self, run_id: str) -> Iterator[Subscription]:
        subscription = Subscription()
        with self._lock:
            self._followers.setdefault(run_id, set()).add(subscription)
        try:
            yield subscription
        finally:
            with self._lock:
                followers = self._followers.get(run_id, set())
                followers.discard(subscription)
                if not followers:
                    self._followers.pop(run_id, None)

    def changed(self, run_id: str) -> None:
        with self._lock:
            followers = list(self._followers.get(run_id, ()))
        for follower in followers:
            follower.wake()

    @property
    def is_stopping(self) -> bool:
        return self._stopping

    def stop(self) -> None:
        """Wake all subscribers for the last time: streams end when they see `is_stopping`."""
        self._stopping = True
        with self._lock:
            followers = [one for group in self._followers.values() for one in group]
        for follower in followers:
            follower.wake()


log = logging.getLogger(__name__)


class NotifyingRunStore:
    """A RunStore over `inner`. After each write it wakes followers and tells the fence the current attempt."""

    def __init__(self, inner: RunStore, notifier: Notifier, fence: AttemptFence) -> None:
        self._inner, self._notifier, self._fence = inner, notifier, fence

    def create(self, run: RunRecord) -> RunRecord:
        return self._inner.create(run)

    def get(self, run_id: RunId) -> RunRecord:
        return self._inner.get(run_id)

    def move(self, seen: RunRecord, to: RunStatus, passed: Sequence[RunEvent] = (), **changes: Any) -> RunRecord:
        moved = self._inner.move(seen, to, passed, **changes)
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
            self._notifier.changed(end_topic(run_id))


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
