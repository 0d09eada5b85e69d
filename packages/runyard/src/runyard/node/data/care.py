"""Keeps the data of a task while its script runs, then uploads what the script has written."""

import contextlib
from collections.abc import Callable
from typing import Protocol

from runyard.errors import Json
from runyard.model.plan import LaunchPlan
from runyard.mounting import kernel
from runyard.node.attempt import AttemptFolder
from runyard.node.data.brought import Brought
from runyard.node.data.mount_process import MountProcess
from runyard.node.data.uploading import finish_uploads
from runyard.node.ending import Ending, add_failure, canceled, said_of
from runyard.node.errand import Errand, Tell
from runyard.node.tree import WaitUntil

_STATE, _SCRIPT_END = "data.json", "script-end.json"


class Supervision(Protocol):
    """What `DataStager` needs of the supervisor."""

    @property
    def wait_until(self) -> WaitUntil: ...

    def is_canceled(self) -> bool: ...

    def exit_status(self, pid: int) -> int | None: ...

    def run_errand(self, work: Callable[[Tell], Json], on_news: Callable[[Json], None]) -> Errand: ...

    def report_uploading(self, message: str) -> None: ...


class DataCare:
    """Keeps the mounts of a task while its script runs, and uploads all that was written before the run ends.

    Its state is in the task's folder, so that the supervisor after a killed one can continue.
    """

    def __init__(self, folder: AttemptFolder, plan: LaunchPlan, supervisor: Supervision) -> None:
        self._folder, self._plan, self._supervisor = folder, plan, supervisor
        self.mounts = MountProcess(folder, supervisor.wait_until)
        self._staged = Brought()

    def take(self, staged: Brought) -> None:
        """Keep the data that was staged for the script."""
        self._staged = staged
        self.mounts.follow(staged.mount_process, staged.mount_report)
        if self._plan.data:
            self._folder.write(_STATE, staged.to_json())

    def are_mounts_alive(self) -> bool:
        """Tell whether the mounts of the script are alive; for a supervisor after a killed one."""
        self.recall()
        return self._staged.mount_process is None or self.mounts.is_alive()

    def recall(self) -> None:
        """Read the state that a killed supervisor left."""
        state = self._folder.read(_STATE)
        if state is not None:
            self._staged = Brought.from_json(state)
            self.mounts.follow(self._staged.mount_process, self._staged.mount_report)

    def known_script_end(self) -> Ending | None:
        """Report of the script's end, if a killed supervisor wrote one."""
        ended = self._folder.read(_SCRIPT_END)
        return None if ended is None else Ending(**ended)

    def finish(self, exit_report: Ending) -> Ending:
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

    def _end_mounts(self, exit_report: Ending) -> None:
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

    def _mounts_died(self, exit_report: Ending, pid: int, *, died_early: bool) -> None:
        """Report a mount process that died. Reads fail afterwards, so a script that succeeded has read what it needed;
        what it wrote may be lost."""
        status = self._supervisor.exit_status(pid)
        how = f" ({said_of(status)})" if status is not None else ""
        when = "while the script was running" if died_early else "before all was written"
        said = f"The process that served the mounts of {', '.join(self._staged.served)} died {when}{how}."
        if self._staged.served_writable:
            written = ", ".join(self._staged.served_writable)
            add_failure(exit_report, f"{said} What the script wrote to {written} may be lost.")
        elif exit_report.outcome == "completed":
            exit_report.warnings.append(said)
        else:
            add_failure(exit_report, said)

    def _upload(self, exit_report: Ending) -> Ending:
        if not self._staged.uploads and not any(item.kind == "output" for item in self._plan.data):
            return exit_report
        folder, plan, staged = self._folder, self._plan, self._staged
        ended_well = exit_report.outcome == "completed"
        forked = self._supervisor.run_errand(
            lambda tell: finish_uploads(folder, plan, staged, tell, ended_well=ended_well),
            lambda news: self._supervisor.report_uploading(news["message"]),
        )
        if forked.done is not None:
            exit_report.warnings += forked.done["warnings"]
            exit_report.outputs = forked.done["outputs"]
        elif self._supervisor.is_canceled():
            return canceled("Finalizing", "The run was canceled while its data was uploaded.")
        else:
            reason = "its process was killed." if forked.error is None else forked.error["message"]
            add_failure(exit_report, f"The data that the script wrote could not be uploaded. {reason}")
        return exit_report
