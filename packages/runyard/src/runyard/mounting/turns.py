import threading
from collections.abc import Callable

_of_thread = threading.local()


class Turns:
    """Leader/followers: one worker at a time receives requests and replies to them, without a queue to other threads,
    which would cost more than the replies. A worker that has to wait passes the leadership on first."""

    def __init__(self, add_worker: Callable[[], None], most_workers: int) -> None:
        self._add_worker, self._most_workers = add_worker, most_workers
        self._lock, self._counting = threading.Lock(), threading.Lock()
        self._workers, self._waiting = 0, 0
        self._taker = 0

    def joined(self) -> None:
        """Register the calling worker. Every worker calls it first."""
        _of_thread.leader = self
        with self._counting:
            self._workers += 1

    def take(self) -> None:
        """Wait until this worker is the leader."""
        with self._counting:
            self._waiting += 1
        self._lock.acquire()
        with self._counting:
            self._waiting -= 1
        self._taker = threading.get_ident()

    @property
    def is_ours(self) -> bool:
        return self._taker == threading.get_ident()

    def pass_on(self) -> None:
        """Make another worker the leader, a new one if all are busy. Does nothing if this worker is no leader."""
        if not self.is_ours:
            return
        self._taker = 0
        with self._counting:
            is_needed = self._waiting == 0 and self._workers < self._most_workers
        if is_needed:
            self._add_worker()
        self._lock.release()


def pass_turn() -> None:
    """Pass the leadership on before waiting. Does nothing in threads that are no workers."""
    leader: Turns | None = getattr(_of_thread, "leader", None)
    if leader is not None:
        leader.pass_on()
