import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from runyard.errors import EnvironmentFailed
from runyard.node.containers.left import orphans_in, remove_marked
from runyard.node.event_loop import now
from runyard.node.processes import die_with_parent

_SOON_SECONDS, _LATER_SECONDS = 5.0, 60.0


class ContainerSweep:
    """Removes, for an agent, the containers of tasks that have ended.

    It works in a forked child, which nobody waits for: an engine may be slow.
    """

    def __init__(self, home: Path, in_child: Callable[[], None]) -> None:
        """`in_child` is called first in the child."""
        self._home, self._in_child = home, in_child
        self._due: float | None = now()

    def look_soon(self) -> None:
        """Sweep in a few seconds: a task has ended, and its engine may still be making a container."""
        self._due = min(self._due or now() + _SOON_SECONDS, now() + _SOON_SECONDS)

    def next_times(self) -> list[float]:
        return [] if self._due is None else [self._due]

    def begin_if_due(self) -> None:
        if self._due is None or self._due > now():
            return
        orphans = orphans_in(self._home)
        self._due = now() + _LATER_SECONDS if orphans else None
        agent = os.getpid()
        if orphans and os.fork() == 0:
            self._run_child(agent)

    def _run_child(self, agent: int) -> None:
        try:
            die_with_parent(agent)
            self._in_child()
            with contextlib.suppress(EnvironmentFailed):  # tried again later
                remove_marked(self._home, orphans_in(self._home))
        finally:
            os._exit(0)
