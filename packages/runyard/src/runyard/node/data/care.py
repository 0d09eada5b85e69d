"""The data of an attempt as its supervisor looks after it, from the first mount to the last upload."""

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
    """What the supervisor does for the one who looks after the data."""

    @property
    def wait_until(self) -> WaitUntil: ...

    def is_canceled(self) -> bool: ...

    def exit_status(self, pid: int) -> int | None: ...

    def run_errand(self, work: Callable[[Tell], Json], on_news: Callable[[Json], None]) -> Errand: ...

    def report_uploading(self, message: str) -> None: ...


class DataCare:
    """Holds the mounts' life, as the script does, and sees that all that was written arrives before the run ends.

    What matters lies in the attempt's folder, so the supervisor that follows a killed one goes on from there.
    """

    def __init__(self, folder: AttemptFolder, plan: LaunchPlan, supervision: Supervision) -> None:
        self._folder, self._plan, self._supervision = folder, plan, supervision
        self.mounts = MountProcess(folder, supervision.wait_until)
        self._brought = Brought()

    def take(self, brought: Brought) -> None:
        """From now on: this is what the script has been given."""
        self._brought = brought
        self.mounts.follow(brought.mount_process, brought.mount_report)
        if self._plan.data:
            self._folder.write(_STATE, brought.to_json())

    def are_mounts_alive(self) -> bool:
        """Whether the script still has all mounts that it was given; for one that follows a killed supervisor."""
        self.recall()
        return self._brought.mount_process is None or self.mounts.is_alive()

    def recall(self) -> None:
        """Take over from a supervisor that was killed."""
        state = self._folder.read(_STATE)
        if state is not None:
            self._brought = Brought.from_json(state)
            self.mounts.follow(self._brought.mount_process, self._brought.mount_report)

    def known_script_end(self) -> Ending | None:
        """How the script ended, where a supervisor that was killed knew it."""
        ended = self._folder.read(_SCRIPT_END)
        return None if ended is None else Ending(**ended)

    def finish(self, ending: Ending) -> Ending:
        """Everything that the script has written is on its datastores, or the ending says what is not."""
        if not self._plan.data:
            return ending
        self._folder.free_reserve()
        with contextlib.suppress(OSError):  # only needed when this supervisor is killed
            self._folder.write(_SCRIPT_END, vars(ending))
        ending.warnings += self._brought.warnings
        self._end_mounts(ending)
        if ending.outcome != "canceled":
            return self._upload(ending)
        if self._brought.uploads:
            names = ", ".join(self._brought.uploads)
            ending.warnings.append(f"The run was canceled, so this was not uploaded: {names}.")
        return ending

    def clear(self) -> None:
        """Nothing is mounted any more, whatever happened. Quiet when nothing was."""
        if not self._plan.data:
            return
        self.mounts.end(lambda: True)
        kernel.sweep(self._folder.mounts)
        # Its files are removed next, and a script may have mounted anything.
        for point in reversed(kernel.mounts_below(self._folder.scripts)):
            kernel.unmount(point)

    def _end_mounts(self, ending: Ending) -> None:
        process = self._brought.mount_process
        if process is None:
            return
        died_early = not self.mounts.is_alive()
        self.mounts.end(self._supervision.is_canceled)
        report = self.mounts.report()
        if report is None:
            self._mounts_died(ending, process.pid, died_early=died_early)
        elif report["lost"]:
            lost = " ".join(report["lost"])
            add_failure(ending, f"Not everything that the script wrote has reached its datastore. {lost}")

    def _mounts_died(self, ending: Ending, pid: int, *, died_early: bool) -> None:
        """Reads fail after that, so a script that ended well has read what it wanted; what it wrote may be lost."""
        status = self._supervision.exit_status(pid)
        how = f" ({said_of(status)})" if status is not None else ""
        when = "while the script was running" if died_early else "before all was written"
        said = f"The process that served the mounts of {', '.join(self._brought.served)} died {when}{how}."
        if self._brought.served_writable:
            written = ", ".join(self._brought.served_writable)
            add_failure(ending, f"{said} What the script wrote to {written} may be lost.")
        elif ending.outcome == "completed":
            ending.warnings.append(said)
        else:
            add_failure(ending, said)

    def _upload(self, ending: Ending) -> Ending:
        if not self._brought.uploads and not any(item.kind == "output" for item in self._plan.data):
            return ending
        folder, plan, brought = self._folder, self._plan, self._brought
        ended_well = ending.outcome == "completed"
        errand = self._supervision.run_errand(
            lambda tell: finish_uploads(folder, plan, brought, tell, ended_well=ended_well),
            lambda news: self._supervision.report_uploading(news["message"]),
        )
        if errand.done is not None:
            ending.warnings += errand.done["warnings"]
            ending.outputs = errand.done["outputs"]
        elif self._supervision.is_canceled():
            return canceled("Finalizing", "The run was canceled while its data was uploaded.")
        else:
            reason = "its process was killed." if errand.error is None else errand.error["message"]
            add_failure(ending, f"The data that the script wrote could not be uploaded. {reason}")
        return ending
