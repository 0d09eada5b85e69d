from pathlib import Path

from runyard.node.attempt import PART_VARIABLE, AttemptFolder
from runyard.node.exit_status import ENDS, left_statuses, running
from runyard.node.processes import ProcessId, carrying, children, leads_session

_CLOCK_SECONDS = 0.011
"""How far the times of files and of processes may differ: one tick of the kernel."""


def find_unregistered(folder: AttemptFolder, keeper: ProcessId | None, written: Path, marker: Path) -> ProcessId | None:
    """Find the only process of a task whose supervisor was killed before it registered it. The process may have ended.

    While it runs, the task's environment variable identifies it. Otherwise it is the only child of the exit keeper that
    was started between `written`, the supervisor's last file before the start, and `marker`, the process's own first
    file. None where that is not certain.
    """
    tagged = carrying(PART_VARIABLE, folder.part, home=folder.home)
    leaders = [process for process in tagged if leads_session(process.pid)]
    if leaders:
        return min(leaders, key=lambda one: (one.started, one.pid))
    # In this order: the keeper writes a status before it reaps, and exits last of all.
    below = children(keeper.pid) if keeper is not None and keeper.is_alive() else set()
    first, last = written.stat().st_mtime - _CLOCK_SECONDS, marker.stat().st_mtime + _CLOCK_SECONDS
    kept = {process for process in below if leads_session(process.pid)} | left_statuses(marker.parent).keys()
    of_others = {process for ends in folder.root.parent.glob(f"*/{ENDS}") for process in running(ends).values()}
    found = [process for process in kept - of_others if first <= process.began() <= last]
    return found[0] if len(found) == 1 else None
