import threading
from collections.abc import Callable

_of_thread = threading.local()


class Turns:
    """Lets one worker at a time take requests and answer them, one after the other, without handing anything over: that
    costs less than the answers themselves. One that has to wait passes its turn on first."""

    def __init__(self, add_worker: Callable[[], None], most_workers: int) -> None:
        self._add_worker, self._most_workers = add_worker, most_workers
        self._lock, self._counting = threading.Lock(), threading.Lock()
        self._workers, self._waiting = 0, 0
        self._taker = 0

    def joined(self) -> None:
        """To be called by every worker first."""
        _of_thread.turns = self
        with self._counting:
            self._workers += 1

    def take(self) -> None:
        """Come back when it is this worker's turn."""
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
        """Let another worker go on, a new one where all others wait for something. Quiet when it is not our turn."""
        if not self.is_ours:
            return
        self._taker = 0
        with self._counting:
            is_needed = self._waiting == 0 and self._workers < self._most_workers
        if is_needed:
            self._add_worker()
        self._lock.release()


def pass_turn() -> None:
    """To be called by whatever is about to wait, in any thread."""
    turns: Turns | None = getattr(_of_thread, "turns", None)
    if turns is not None:
        turns.pass_on()
