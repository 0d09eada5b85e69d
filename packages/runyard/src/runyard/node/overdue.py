"""Parts that were told to stop and whose supervisor does not see to it: it hangs, or somebody has frozen it."""

import contextlib
import signal

from runyard.node.attempt import PART_VARIABLE, AttemptFolder
from runyard.node.background import capped_grace
from runyard.node.event_loop import now
from runyard.node.inotify import Change, Inotify
from runyard.node.processes import carrying, descendants
from runyard.node.tree import platform_processes
from runyard.planning.plan_json import plan_from_json

_CANCEL = "cancel.json"
_PATIENCE_SECONDS = 2.0
OVERDUE = "overdue.json"
"""There once the agent has ended a part in its supervisor's place: the next supervisor reports what was wished."""


class Overdue:
    """For an agent: knows by when each part that was told to stop must have no process left.

    `fileno` is readable when `hear` has something to hear.
    """

    def __init__(self) -> None:
        self._inotify = Inotify()
        self._watched: dict[int, AttemptFolder] = {}
        self._due: dict[str, tuple[float, AttemptFolder]] = {}

    def fileno(self) -> int:
        return self._inotify.fileno()

    def watch(self, folder: AttemptFolder) -> None:
        """Hear of it when this part is told to stop, or has been."""
        with contextlib.suppress(OSError):  # it is gone, or the machine's limit is reached, which its supervisor says
            self._watched[self._inotify.add(folder.root, Change.MOVED_TO | Change.ONLY_FOLDERS)] = folder
            self._look_for_wish(folder)

    def hear(self) -> None:
        for notice in self._inotify.read():
            if notice.change & Change.GONE:
                self._watched.pop(notice.watch, None)
            elif notice.name == _CANCEL and notice.watch in self._watched:
                self._look_for_wish(self._watched[notice.watch])

    def next_times(self) -> list[float]:
        return [at for at, _ in self._due.values()]

    def end_what_is_due(self) -> None:
        """Kill the supervisors that have not seen to it, with all that is left of their parts."""
        for part, (at, folder) in list(self._due.items()):
            if at > now():
                continue
            del self._due[part]
            if folder.exists() and not _end_if_left(folder):
                self._due[part] = (now() + _PATIENCE_SECONDS, folder)

    def close(self) -> None:
        self._inotify.close()

    def _look_for_wish(self, folder: AttemptFolder) -> None:
        if folder.part not in self._due and not (folder.root / OVERDUE).exists():
            grace = _wished_grace(folder)
            if grace is not None:
                self._due[folder.part] = (now() + grace + _PATIENCE_SECONDS, folder)


def _wished_grace(folder: AttemptFolder) -> float | None:
    """None for a part that was not told to stop. Its own script may write to its folder, so nothing is relied on."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        wish, plan = folder.read(_CANCEL), folder.read("plan.json")
        if wish is not None and plan is not None:
            return capped_grace(plan_from_json(plan), float(wish["grace"]))
    return None


def _end_if_left(folder: AttemptFolder) -> bool:
    """False where the supervisor is at work, and has no process left but those that help it deliver. It does not work
    while one of them is frozen."""
    supervisor = folder.supervisor()
    if supervisor is None:
        return False
    spared = platform_processes(folder.home)
    left = carrying(PART_VARIABLE, folder.part, spared, home=folder.home)
    below = descendants(supervisor.pid, spared)
    if not left and not any(process.is_frozen() for process in (supervisor, *below)):
        return False
    with contextlib.suppress(OSError):  # a full disk: the part's end will then tell of its supervisor's
        folder.write(OVERDUE, {})
    # The supervisor first: it must not take the death of what it looks after for its own end.
    for process in [supervisor, *below, *left]:
        process.send(signal.SIGKILL)
    return True
