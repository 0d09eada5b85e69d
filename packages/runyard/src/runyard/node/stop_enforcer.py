"""Kills node tasks that were asked to stop and whose supervisor does not act on it: it hangs, or is frozen."""

import contextlib
import signal

from runyard.core.plan_json import plan_from_json
from runyard.node.file_watcher import FileChange, Inotify
from runyard.node.processes.event_loop import now
from runyard.node.processes.process_tree import platform_processes
from runyard.node.processes.procfs import descendants, processes_with_variable
from runyard.node.supervisor.loop import capped_grace
from runyard.node.task_folder import TASK_VARIABLE, TaskFolder

_CANCEL = "cancel.json"
_PATIENCE_SECONDS = 2.0
OVERDUE_FILE = "overdue.json"
"""Written when the agent has killed a task instead of its supervisor. The next supervisor reports the requested end."""


class StopEnforcer:
    """Keeps, for an agent, the time by which each task that was asked to stop must have no process left.

    `fileno` is readable when `read_events` has something to read.
    """

    def __init__(self) -> None:
        self._inotify = Inotify()
        self._watched: dict[int, TaskFolder] = {}
        self._due: dict[str, tuple[float, TaskFolder]] = {}

    def fileno(self) -> int:
        return self._inotify.fileno()

    def watch(self, folder: TaskFolder) -> None:
        """Notice when this task is asked to stop, or has been already."""
        with contextlib.suppress(OSError):  # it is gone; or out of inotify watches, which its supervisor reports
            self._watched[self._inotify.add(folder.root, FileChange.MOVED_TO | FileChange.ONLY_FOLDERS)] = folder
            self._read_request(folder)

    def read_events(self) -> None:
        for notice in self._inotify.read():
            if notice.change & FileChange.GONE:
                self._watched.pop(notice.watch, None)
            elif notice.name == _CANCEL and notice.watch in self._watched:
                self._read_request(self._watched[notice.watch])

    def next_times(self) -> list[float]:
        return [at for at, _ in self._due.values()]

    def kill_overdue(self) -> None:
        """Kill the supervisors whose time is over, with all processes of their tasks."""
        for part, (at, folder) in list(self._due.items()):
            if at > now():
                continue
            del self._due[part]
            if folder.exists() and not _kill_if_left(folder):
                self._due[part] = (now() + _PATIENCE_SECONDS, folder)

    def close(self) -> None:
        self._inotify.close()

    def _read_request(self, folder: TaskFolder) -> None:
        if folder.part not in self._due and not (folder.root / OVERDUE_FILE).exists():
            grace = _requested_grace(folder)
            if grace is not None:
                self._due[folder.part] = (now() + grace + _PATIENCE_SECONDS, folder)


def _requested_grace(folder: TaskFolder) -> float | None:
    """Grace of the stop request, None without one. A script may write to the folder, so every file is checked."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        request, plan = folder.read(_CANCEL), folder.read("plan.json")
        if request is not None and plan is not None:
            return capped_grace(plan_from_json(plan), float(request["grace"]))
    return None


def _kill_if_left(folder: TaskFolder) -> bool:
    """Kill a task that still has processes. Return False where only the supervisor and its own helpers are left, and
    none of them is frozen: it is still uploading."""
    supervisor = folder.supervisor()
    if supervisor is None:
        return False
    spared = platform_processes(folder.home)
    left = processes_with_variable(TASK_VARIABLE, folder.part, spared, home=folder.home)
    below = descendants(supervisor.pid, spared)
    if not left and not any(process.is_frozen() for process in (supervisor, *below)):
        return False
    with contextlib.suppress(OSError):  # the disk is full: the task is then reported as lost with its supervisor
        folder.write(OVERDUE_FILE, {})
    # The supervisor first: it would report the killed processes as the task's own failure.
    for process in [supervisor, *below, *left]:
        process.send(signal.SIGKILL)
    return True
