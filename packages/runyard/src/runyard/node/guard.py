import contextlib
import os
import signal
import time
from pathlib import Path

from runyard.core.errors import EnvironmentFailed
from runyard.node.containers.markers import list_markers, remove_containers
from runyard.node.processes.exit_tracker import PROCESS_FILE
from runyard.node.processes.procfs import ProcessId, adopt_orphans, descendants, identify, processes_with_variable
from runyard.node.task_folder import TASK_VARIABLE, TaskFolder, list_task_folders

_POLL_SECONDS = 0.02
_MOST_SECONDS = 30.0


def open_guard(guard: ProcessId) -> int | None:
    """Open a descriptor that becomes readable when the process ends. None when it has ended already."""
    try:
        descriptor = os.pidfd_open(guard.pid)
    except OSError:
        return None
    if identify(guard.pid) != guard or not guard.is_alive():
        os.close(descriptor)
        return None
    return descriptor


def kill_all_tasks(home: Path) -> None:
    """Kill every process of every task of this home, and return when none is left.

    For an agent whose node is gone. Supervisors are killed first: they would report the killed processes as failures
    of their tasks. The folders stay, so that a later agent can upload what was written.
    """
    adopt_orphans()  # processes that lose their supervisor become children of this one
    folders = list_task_folders(home)
    supervisors = {found for folder in folders if (found := folder.supervisor()) is not None}
    below = {process for supervisor in supervisors for process in descendants(supervisor.pid)}
    keepers = _keepers(folders)
    for process in [*supervisors, *_children(), *below]:
        process.send(signal.SIGKILL)
    ends_at = time.monotonic() + _MOST_SECONDS
    while (
        left := _living_processes(home, [folder.part for folder in folders], keepers)
    ) and time.monotonic() < ends_at:
        for process in left:
            process.send(signal.SIGKILL)
        time.sleep(_POLL_SECONDS)
    with contextlib.suppress(EnvironmentFailed):  # the markers stay, for a later agent
        remove_containers(home, list_markers(home))


def _children() -> set[ProcessId]:
    """Descendants of this process, among them supervisors that have not written `supervisor.json` yet."""
    return descendants(os.getpid())


def _keepers(folders: list[TaskFolder]) -> set[ProcessId]:
    """Exit keepers of the tasks, which adopt scripts that lost their supervisor, with what those started."""
    found = set()
    for folder in folders:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):  # none, or the script changed the file
            pid, started = (folder.read(PROCESS_FILE) or {})["keeper"]
            found.add(ProcessId(int(pid), int(started)))
    return found


def _living_processes(home: Path, parts: list[str], keepers: set[ProcessId]) -> set[ProcessId]:
    tagged = {process for part in parts for process in processes_with_variable(TASK_VARIABLE, part, home=home)}
    kept = (descendants(keeper.pid, [os.getpid()]) for keeper in keepers if keeper.is_alive())
    return tagged.union(descendants(os.getpid()), *kept)
