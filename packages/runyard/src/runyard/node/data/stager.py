"""Keeps the data of a task while its script runs, then uploads what the script has written."""

import contextlib
import os
import signal
from collections.abc import Callable
from typing import Protocol

from runyard.core.errors import Json
from runyard.core.records.launch_plan import LaunchPlan
from runyard.data.fuse import kernel
from runyard.node.data.staged_data import StagedData
from runyard.node.data.uploads import finish_uploads
from runyard.node.processes.event_loop import now
from runyard.node.processes.exit_report import ExitReport, add_failure, canceled_report, describe_wait_status
from runyard.node.processes.forked_task import ForkedTask, Notify
from runyard.node.processes.process_tree import WaitUntil
from runyard.node.processes.procfs import ProcessId
from runyard.node.task_folder import TaskFolder

_STATE, _SCRIPT_END = "data.json", "script-end.json"


class SupervisorCalls(Protocol):
    """What `DataStager` needs of the supervisor."""

    @property
    def wait_until(self) -> WaitUntil: ...

    def is_canceled(self) -> bool: ...

    def exit_status(self, pid: int) -> int | None: ...

    def run_forked(self, work: Callable[[Notify], Json], on_message: Callable[[Json], None]) -> ForkedTask: ...

    def report_uploading(self, message: str) -> None: ...


class DataStager:
    """Keeps the mounts of a task while its script runs, and uploads all that was written before the run ends.

    Its state is in the task's folder, so that the supervisor after a killed one can continue.
    """

    def __init__(self, folder: TaskFolder, plan: LaunchPlan, supervisor: SupervisorCalls) -> None:
        self._folder, self._plan, self._supervisor = folder, plan, supervisor
        self.mounts = MountProcess(folder, supervisor.wait_until)
        self._staged = StagedData()

    def take(self, staged: StagedData) -> None:
        """Keep the data that was staged for the script."""
        self._staged = staged
        self.mounts.follow(staged.mount_process, staged.mount_report)
        if self._plan.data:
            self._folder.write(_STATE, staged.to_json())

    def are_mounts_alive(self) -> bool:
        """Tell whether the mounts of the script are alive; for a supervisor after a killed one."""
        self.restore_state()
        return self._staged.mount_process is None or self.mounts.is_alive()

    def restore_state(self) -> None:
        """Read the state that a killed supervisor left."""
        state = self._folder.read(_STATE)
        if state is not None:
            self._staged = StagedData.from_json(state)
            self.mounts.follow(self._staged.mount_process, self._staged.mount_report)

    def saved_script_exit(self) -> ExitReport | None:
        """Report of the script's end, if a killed supervisor wrote one."""
        ended = self._folder.read(_SCRIPT_END)
        return None if ended is None else ExitReport(**ended)

    def finish(self, exit_report: ExitReport) -> ExitReport:
        """End the mounts and upload what the script has written. Failures are added to the report."""
        if not self._plan.data:
            return exit_report
        self._folder.free_reserve()
        with contextlib.suppress(OSError):  # needed only if this supervisor is killed
            self._folder.write(_SCRIPT_END, vars(exit_report))
        exit_report.warnings += self._staged.warnings
        self._end_mounts(exit_report)
        if exit_report.outcome != "canceled":
            return self._upload(exit_report)
        if self._staged.uploads:
            names = ", ".join(self._staged.uploads)
            exit_report.warnings.append(f"The run was canceled, so this was not uploaded: {names}.")
        return exit_report

    def clear(self) -> None:
        """End the mount process and unmount everything. Does nothing without data."""
        if not self._plan.data:
            return
        self.mounts.end(lambda: True)
        kernel.sweep(self._folder.mounts)
        # The files are deleted next, and a script may have mounted anything below.
        for point in reversed(kernel.mounts_below(self._folder.scripts)):
            kernel.unmount(point)

    def _end_mounts(self, exit_report: ExitReport) -> None:
        process = self._staged.mount_process
        if process is None:
            return
        died_early = not self.mounts.is_alive()
        self.mounts.end(self._supervisor.is_canceled)
        report = self.mounts.report()
        if report is None:
            self._mounts_died(exit_report, process.pid, died_early=died_early)
        elif report["lost"]:
            lost = " ".join(report["lost"])
            add_failure(exit_report, f"Not everything that the script wrote has reached its datastore. {lost}")

    def _mounts_died(self, exit_report: ExitReport, pid: int, *, died_early: bool) -> None:
        """Report a mount process that died. Reads fail afterwards, so a script that succeeded has read what it needed;
        what it wrote may be lost."""
        status = self._supervisor.exit_status(pid)
        how = f" ({describe_wait_status(status)})" if status is not None else ""
        when = "while the script was running" if died_early else "before all was written"
        message = f"The process that served the mounts of {', '.join(self._staged.served)} died {when}{how}."
        if self._staged.served_writable:
            written = ", ".join(self._staged.served_writable)
            add_failure(exit_report, f"{message} What the script wrote to {written} may be lost.")
        elif exit_report.outcome == "completed":
            exit_report.warnings.append(message)
        else:
            add_failure(exit_report, message)

    def _upload(self, exit_report: ExitReport) -> ExitReport:
        if not self._staged.uploads and not any(item.kind == "output" for item in self._plan.data):
            return exit_report
        folder, plan, staged = self._folder, self._plan, self._staged
        ended_well = exit_report.outcome == "completed"
        forked = self._supervisor.run_forked(
            lambda notify: finish_uploads(folder, plan, staged, notify, ended_well=ended_well),
            lambda message: self._supervisor.report_uploading(message["message"]),
        )
        if forked.done is not None:
            exit_report.warnings += forked.done["warnings"]
            exit_report.outputs = forked.done["outputs"]
        elif self._supervisor.is_canceled():
            return canceled_report("Finalizing", "The run was canceled while its data was uploaded.")
        else:
            reason = "its process was killed." if forked.error is None else forked.error["message"]
            add_failure(exit_report, f"The data that the script wrote could not be uploaded. {reason}")
        return exit_report


_SILENCE_SECONDS, _CANCELED_SECONDS, _POLL_SECONDS = 600.0, 30.0, 0.05


class MountProcess:
    """The process that serves a task's mounts. It lives until all write ends of a pipe, the lifeline, are closed; then
    it uploads what was written, and writes a report."""

    def __init__(self, folder: TaskFolder, wait_until: WaitUntil) -> None:
        self._folder, self._wait_until = folder, wait_until
        self._lifeline: int | None = None
        self._process: ProcessId | None = None
        self._report = ""

    def open_lifeline(self) -> int:
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
        """Report of the mount process; None when it died."""
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
