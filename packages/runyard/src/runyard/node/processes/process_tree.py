import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from runyard.node.containers.supervisor import ContainerSupervisor
from runyard.node.processes.event_loop import now
from runyard.node.processes.procfs import ProcessId, descendants, identify, processes_with_variable
from runyard.node.task_folder import TASK_VARIABLE, TaskFolder

_POLL_SECONDS = 0.05
_CONTAINER_END_SECONDS = 0.5


class WaitUntil(Protocol):
    def __call__(
        self, is_done: Callable[[], bool], deadline: float | None = None, *, ignore_cancel: bool = False
    ) -> None: ...


class ProcessTree:
    """All processes of a task: descendants of its supervisor, and all that have the task's environment variable."""

    def __init__(
        self,
        folder: TaskFolder,
        wait_until: WaitUntil,
        has_children: Callable[[], bool],
        *,
        own: Callable[[], set[int]],
        followed: Callable[[], set[ProcessId]],
        containers: ContainerSupervisor,
    ) -> None:
        """`own` returns the supervisor's helper processes, which it ends itself; `followed` the processes of the task
        that an earlier supervisor started."""
        self._folder, self._wait_until, self._has_children, self._own = folder, wait_until, has_children, own
        self._followed, self._containers = followed, containers

    def end(self, grace_seconds: float, *, strays: bool = True) -> None:
        """Send SIGTERM to every process, SIGKILL after the grace, and return when none is left.

        The supervisor's loop goes on meanwhile. Without `strays` it returns at once when the supervisor has no
        descendant, which is quick to test: no process can leave them while their supervisor lives. Containers are
        removed with all their processes.
        """
        has_containers = self._containers.may_be_left()
        if not (has_containers or self._has_children() or self._followed() or (strays and self._tagged())):
            return
        if has_containers and not self._tagged():
            self._stop_by_engine(grace_seconds)
        self._send_and_wait((signal.SIGTERM, signal.SIGCONT), grace_seconds)
        while self.living():
            self._send_and_wait((signal.SIGKILL,), 1.0)
        self._containers.remove()

    def _stop_by_engine(self, grace_seconds: float) -> None:
        """Stop the containers through their engine: their processes have ended, or are not visible to us."""
        self._wait_until(self._containers.have_ended, now() + _CONTAINER_END_SECONDS, ignore_cancel=True)
        if not self._containers.have_ended():
            self._containers.stop(grace_seconds)

    def living(self) -> set[ProcessId]:
        """Running processes of the task."""
        spared = self._spared()
        followed = {process for process in self._followed() if process.pid not in spared}
        roots = (os.getpid(), *(process.pid for process in followed))
        return followed.union(self._tagged(), *(descendants(root, spared) for root in roots))

    def ask_to_stop(self, pid: int) -> None:
        """Send SIGTERM to one process of the task and its descendants. A number that stands for a process in a
        container means all processes in containers. What ignores the signal is killed when the task ends."""
        if pid < 0:
            for process in self._tagged():
                process.send(signal.SIGTERM)
            return
        top = identify(pid)
        for process in {*descendants(pid), *([top] if top is not None else [])}:
            process.send(signal.SIGTERM)

    def _send_and_wait(self, signals: tuple[signal.Signals, ...], seconds: float) -> None:
        deadline, asked = now() + seconds, self.living()
        for process in asked:
            for number in signals:
                process.send(number)
        # Strays are not our children, so no event tells that they have ended.
        while any(process.is_alive() for process in asked) and now() < deadline:
            self._wait_until(
                lambda: not any(process.is_alive() for process in asked),
                min(deadline, now() + _POLL_SECONDS),
                ignore_cancel=True,
            )

    def _tagged(self) -> set[ProcessId]:
        return processes_with_variable(TASK_VARIABLE, self._folder.part, self._spared(), home=self._folder.home)

    def _spared(self) -> set[int]:
        """Processes to leave alone: the service, agent and gateway, which a script may have started and other runs
        need; and the mount process, since a script that is asked to stop may still read and write its data."""
        return platform_processes(self._folder.home) | self._own()


def platform_processes(home: Path) -> set[int]:
    """Pids of the service, the agent with its exit keeper, and the gateway of this home."""
    return {pid for name in ("service.json", "agent.json", "gateway.json") for pid in _pids_in(home / name)}


def _pids_in(file: Path) -> list[int]:
    try:
        facts = json.loads(file.read_bytes())
        return [pid for name in ("pid", "keeper") if isinstance(pid := facts.get(name), int)]
    except (OSError, ValueError, AttributeError):
        return []
