import os
import signal
from collections.abc import Callable

from runyard.errors import Json
from runyard.node.attempt import AttemptFolder
from runyard.node.event_loop import now
from runyard.node.processes import ProcessId
from runyard.node.tree import WaitUntil

_SILENCE_SECONDS, _CANCELED_SECONDS, _LOOK_AGAIN_SECONDS = 600.0, 30.0, 0.05


class MountProcess:
    """The process that serves an attempt's mounts. It lives as long as this one holds its end of a pipe; then it
    finishes what was written, and leaves a report."""

    def __init__(self, folder: AttemptFolder, wait_until: WaitUntil) -> None:
        self._folder, self._wait_until = folder, wait_until
        self._life: int | None = None
        self._process: ProcessId | None = None
        self._report = ""

    def open_life(self) -> int:
        """The end of the pipe for the process to come; the caller closes it once it has been forked."""
        read_end, self._life = os.pipe2(os.O_CLOEXEC)
        return read_end

    @property
    def life(self) -> tuple[int, ...]:
        """The other end, which no child of the supervisor but the script may hold."""
        return () if self._life is None else (self._life,)

    def follow(self, process: ProcessId | None, report: str) -> None:
        """`report` is the name of the file that it will leave."""
        self._process, self._report = process, report

    def is_alive(self) -> bool:
        return self._process is not None and self._process.is_alive()

    @property
    def pids(self) -> set[int]:
        return {self._process.pid} if self._process is not None and self._process.is_alive() else set()

    def end(self, is_canceled: Callable[[], bool]) -> None:
        """Let it go, and wait until it has finished: as long as it tells of progress, but not for ever once the run is
        canceled. One that does not come to its end is killed."""
        self._close_life()
        heard, canceled_at = now(), None
        last_line = self._last_line()
        while self.is_alive():
            self._wait_until(lambda: not self.is_alive(), now() + _LOOK_AGAIN_SECONDS, ignore_cancel=True)
            if self._last_line() != last_line:
                heard, last_line = now(), self._last_line()
            canceled_at = canceled_at or (now() if is_canceled() else None)
            if now() - heard > _SILENCE_SECONDS or (canceled_at and now() - canceled_at > _CANCELED_SECONDS):
                self.kill()

    def kill(self) -> None:
        if self._process is not None:
            self._process.send(signal.SIGKILL)
            self._wait_until(lambda: not self.is_alive(), now() + 1.0, ignore_cancel=True)

    def report(self) -> Json | None:
        """What it has left; None when it died."""
        return self._folder.read(self._report)

    def _close_life(self) -> None:
        if self._life is not None:
            os.close(self._life)
            self._life = None

    def _last_line(self) -> int:
        """Grows with every line of its progress."""
        try:
            return self._folder.node_log.stat().st_size
        except OSError:
            return 0
