import contextlib
import os
import selectors
import signal
import time
from collections.abc import Callable
from typing import Protocol

from runyard.node.processes.exit_status import wait_status


class Readable(Protocol):
    def fileno(self) -> int: ...


class EventLoop:
    """Waits for descriptors and ended children in one thread, without polling.

    It reaps every child of the process; `exit_status` has their wait statuses.
    """

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._exit_status: dict[int, int] = {}
        self._on_exit: dict[int, Callable[[int], None]] = {}
        self._before_reaping: dict[int, Callable[[int], None]] = {}
        self._numbers = 0
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._selector.register(self._wake_read, selectors.EVENT_READ, self._drain)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        self._reap()

    def on_readable(self, source: Readable | int, callback: Callable[[], None]) -> None:
        self._selector.register(source, selectors.EVENT_READ, callback)

    def forget(self, source: Readable | int) -> None:
        self._selector.unregister(source)

    def wake(self) -> None:
        """End the current wait. Safe from any thread."""
        try:
            os.write(self._wake_write, b"\0")
        except BlockingIOError:
            return

    def wait(self, seconds: float | None) -> None:
        """Run the callbacks of the first events within that time, and return. None waits for ever."""
        for key, _ in self._selector.select(None if seconds is None else max(0.0, seconds)):
            key.data()

    def exit_status(self, pid: int) -> int | None:
        """Wait status of a child that has ended, else None."""
        return self._exit_status.get(pid)

    def take_ended(self) -> list[int]:
        """Pids of the children that have ended, each once: a later child may have the same number."""
        ended = list(self._exit_status)
        self._exit_status.clear()
        return ended

    def on_exit(self, pid: int, callback: Callable[[int], None]) -> None:
        """Call it once, from within a wait, with the wait status of this child when it has ended."""
        self._on_exit[pid] = callback
        self.wake()

    def before_reaping(self, pid: int, write: Callable[[int], None]) -> None:
        """Call it with the wait status of this child before the child is reaped: a kill in between would lose it."""
        self._before_reaping[pid] = write

    def number(self) -> int:
        """Return a negative number that stands for the pid of a process that is no child; `settle` sets its status."""
        self._numbers -= 1
        return self._numbers

    def settle(self, number: int, status: int) -> None:
        self._exit_status[number] = status
        self.wake()

    def has_children(self) -> bool:
        """Tell whether any child is left, adopted orphans included."""
        return self._reap()

    def close(self) -> None:
        signal.set_wakeup_fd(-1)
        self._selector.close()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def _drain(self) -> None:
        try:
            while os.read(self._wake_read, 4096):
                pass
        except BlockingIOError:
            pass
        self._reap()
        for pid in [pid for pid in self._on_exit if pid in self._exit_status]:
            self._on_exit.pop(pid)(self._exit_status[pid])

    def _reap(self) -> bool:
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return False
            if found is None:
                return True
            write = self._before_reaping.pop(found.si_pid, None)
            if write is not None:
                with contextlib.suppress(OSError):  # needed only if this process is killed
                    write(wait_status(found))
            _, self._exit_status[found.si_pid] = os.waitpid(found.si_pid, 0)


def now() -> float:
    """Seconds of the monotonic clock."""
    return time.monotonic()
