import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from runyard.model.runs import RunRecord


def end_of(run_id: str) -> str:
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
            await asyncio.wait_for(self._event.wait(), seconds)
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
        self.changed(end_of(run.id))
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
