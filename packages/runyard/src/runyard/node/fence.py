import contextlib
import os
import signal
import time
from pathlib import Path

from runyard.errors import EnvironmentFailed
from runyard.node.attempt import PART_VARIABLE, AttemptFolder, attempt_folders
from runyard.node.containers.left import marks_in, remove_marked
from runyard.node.exits import PROCESS
from runyard.node.processes import ProcessId, adopt_orphans, carrying, descendants, identify

_LOOK_AGAIN_SECONDS = 0.02
_MOST_SECONDS = 30.0


def parse_guard(text: str) -> ProcessId:
    """What `guard_words` made: "PID:STARTED". Raises ValueError."""
    pid, _, started = text.partition(":")
    return ProcessId(int(pid), int(started))


def guard_words(process: ProcessId) -> str:
    return f"{process.pid}:{process.started}"


def open_guard(guard: ProcessId) -> int | None:
    """A descriptor that becomes readable when that process ends; None when it has ended already."""
    try:
        descriptor = os.pidfd_open(guard.pid)
    except OSError:
        return None
    if identify(guard.pid) != guard or not guard.is_alive():
        os.close(descriptor)
        return None
    return descriptor


def end_all_parts(home: Path) -> None:
    """Kill every process of every part of this home, and return when none is left.

    For an agent whose node is no longer one. Supervisors go first: they must not take the death of what they
    look after for its own end. The folders stay, so that a later agent can deliver what was written.
    """
    adopt_orphans()  # what loses its supervisor hangs below us from here on
    folders = attempt_folders(home)
    supervisors = {found for folder in folders if (found := folder.supervisor()) is not None}
    below = {process for supervisor in supervisors for process in descendants(supervisor.pid)}
    keepers = _keepers(folders)
    for process in [*supervisors, *_children(), *below]:
        process.send(signal.SIGKILL)
    ends_at = time.monotonic() + _MOST_SECONDS
    while (left := _left(home, [folder.part for folder in folders], keepers)) and time.monotonic() < ends_at:
        for process in left:
            process.send(signal.SIGKILL)
        time.sleep(_LOOK_AGAIN_SECONDS)
    with contextlib.suppress(EnvironmentFailed):  # its marks stay, for a later agent
        remove_marked(home, marks_in(home))


def _children() -> set[ProcessId]:
    """Supervisors that have not signed in yet are among these."""
    return descendants(os.getpid())


def _keepers(folders: list[AttemptFolder]) -> set[ProcessId]:
    """Exit keepers of the parts: scripts that lost their supervisor hang below these, with what they started."""
    found = set()
    for folder in folders:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):  # it has none, or its script wrote there
            pid, started = (folder.read(PROCESS) or {})["keeper"]
            found.add(ProcessId(int(pid), int(started)))
    return found


def _left(home: Path, parts: list[str], keepers: set[ProcessId]) -> set[ProcessId]:
    tagged = {process for part in parts for process in carrying(PART_VARIABLE, part, home=home)}
    kept = (descendants(keeper.pid, [os.getpid()]) for keeper in keepers if keeper.is_alive())
    return tagged.union(descendants(os.getpid()), *kept)
