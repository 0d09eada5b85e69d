import os
import signal
from collections.abc import Callable

from runyard.errors import Json
from runyard.node.attempt import AttemptFolder
from runyard.node.event_loop import now
from runyard.node.processes import ProcessId
from runyard.node.tree import WaitUntil

_SILENCE_SECONDS, _CANCELED_SECONDS, _POLL_SECONDS = 600.0, 30.0, 0.05


class MountProcess:
    """The process that serves a task's mounts. It lives until all write ends of a pipe, the lifeline, are closed; then
    it uploads what was written, and writes a report."""

    def __init__(self, folder: AttemptFolder, wait_until: WaitUntil) -> None:
        self._folder, self._wait_until = folder, wait_until
        self._lifeline: int | None = None
        self._process: ProcessId | None = None
        self._report = ""

    def open_life(self) -> int:
        """Make the lifeline. Returns its read end for the process to fork; the caller closes it afterwards."""
        read_end, self._lifeline = os.pipe2(os.O_CLOEXEC)
        return read_end

    @property
    def life(self) -> tuple[int, ...]:
        """The write end of the lifeline, which only the supervisor and the script may hold."""
        return () if self._lifeline is None else (self._lifeline,)

    def follow(self, process: ProcessId | None, report: str) -> None:
        """Watch this process. `report`: name of the file that it will write."""
        self._process, self._report = process, report

    def is_alive(self) -> bool:
        return self._process is not None and self._process.is_alive()

    @property
    def pids(self) -> set[int]:
        return {self._process.pid} if self._process is not None and self._process.is_alive() else set()

    def end(self, is_canceled: Callable[[], bool]) -> None:
        """Close the lifeline and wait until the process has finished: as long as it logs progress, but at most for a
        fixed time once the run is canceled. Then it is killed."""
        self._close_lifeline()
        progress_at, canceled_at = now(), None
        log_size = self._log_size()
        while self.is_alive():
            self._wait_until(lambda: not self.is_alive(), now() + _POLL_SECONDS, ignore_cancel=True)
            if self._log_size() != log_size:
                progress_at, log_size = now(), self._log_size()
            canceled_at = canceled_at or (now() if is_canceled() else None)
            if now() - progress_at > _SILENCE_SECONDS or (canceled_at and now() - canceled_at > _CANCELED_SECONDS):
                self.kill()

    def kill(self) -> None:
        if self._process is not None:
            self._process.send(signal.SIGKILL)
            self._wait_until(lambda: not self.is_alive(), now() + 1.0, ignore_cancel=True)

    def report(self) -> Json | None:
        """Its report; None when it died."""
        return self._folder.read(self._report)

    def _close_lifeline(self) -> None:
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None

    def _log_size(self) -> int:
        """Size of the log that it writes its progress to."""
        try:
            return self._folder.node_log.stat().st_size
        except OSError:
            return 0
