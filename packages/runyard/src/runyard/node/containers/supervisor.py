from collections.abc import Callable
from typing import Protocol

from runyard.core.errors import Json
from runyard.node.containers.markers import (
    ContainerMarker,
    list_markers,
    read_container_state,
    remove_containers,
    stop_containers,
)
from runyard.node.processes.forked_task import ForkedTask
from runyard.node.task_folder import TaskFolder

_MOST_SECONDS = 60.0


class RunUninterrupted(Protocol):
    def __call__(self, work: Callable[[], Json], seconds: float) -> ForkedTask:
        """Run in a forked child for at most that long, and ignore stop requests meanwhile."""


class ContainerSupervisor:
    """Stops and removes the containers of a task, also those that an earlier supervisor started."""

    def __init__(self, folder: TaskFolder, run_uninterrupted: RunUninterrupted) -> None:
        self._folder, self._run_uninterrupted = folder, run_uninterrupted
        self.warnings: list[str] = []
        self._known: set[str] = set()
        self._over: set[str] = set()

    def may_be_left(self) -> bool:
        return bool(self._markers())

    def begin(self, container: str) -> None:
        """Note that this supervisor starts a container, and will call `end` for it."""
        self._known.add(container)

    def end(self, container: str) -> None:
        self._over.add(container)

    def have_ended(self) -> bool:
        """Tell whether no container has a process left. False where this supervisor did not start them."""
        return bool(self._known) and self._known == self._over

    def stop(self, grace_seconds: float) -> None:
        """Stop the containers through their engine, for processes that this machine does not show to us."""
        markers = self._markers()
        self._run_engine_work(lambda: stop_containers(markers, grace_seconds), grace_seconds + _MOST_SECONDS)

    def remove(self) -> None:
        """Remove the containers. A failure becomes a warning."""
        markers, home = self._markers(), self._folder.home
        if markers and (why := self._run_engine_work(lambda: remove_containers(home, markers), _MOST_SECONDS)):
            names = ", ".join(marker.container for marker in markers)
            self.warnings = [f"The run's container {names} could not be removed; a later start of Runyard will. {why}"]

    def exit_details(self, container: str) -> Json:
        """What the engine knows of an ended container: `oom`; or `error`, when the engine does not answer."""
        marker = next((marker for marker in self._markers() if marker.container == container), None)
        if marker is None:
            return {"oom": False}
        forked = self._run_uninterrupted(lambda: read_container_state(marker), _MOST_SECONDS)
        return forked.done if forked.done is not None else {"error": f"the engine at {marker.engine} does not answer"}

    def _markers(self) -> list[ContainerMarker]:
        return list_markers(self._folder.home, self._folder.part)

    def _run_engine_work(self, work: Callable[[], None], seconds: float) -> str:
        """Run it in a child. Returns why it failed; "" when it did not."""

        def with_answer() -> Json:
            work()
            return {}

        forked = self._run_uninterrupted(with_answer, seconds)
        if forked.done is not None:
            return ""
        return forked.error["message"] if forked.error else f"Its engine did not answer for {seconds:.0f} s."
