"""Markers of containers that may still exist: one file each in the home, so that no engine is asked without need."""

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from runyard.core.disk import write_all
from runyard.core.durable_files import replacement
from runyard.core.errors import EnvironmentFailed, Json
from runyard.environments.containers.engine import ContainerEngine, find_engine
from runyard.node.processes.event_loop import now
from runyard.node.processes.procfs import die_with_parent
from runyard.node.task_folder import TaskFolder

HOME_LABEL, PART_LABEL = "runyard.home", "runyard.part"
_POLL_SECONDS = 0.05
_MAKING_SECONDS = 120.0
"""An engine has made a requested container within this time."""
_LOST_ENGINE_SECONDS = 30 * 24 * 3600.0


@dataclass(frozen=True)
class ContainerMarker:
    """A file in the home that exists from before a container is made until it has been removed."""

    file: Path
    part: str
    engine: str

    @property
    def container(self) -> str:
        return self.file.name

    def age_seconds(self) -> float:
        try:
            return time.time() - self.file.stat().st_mtime
        except OSError:
            return 0.0


def container_labels(home: Path, part: str) -> dict[str, str]:
    return {HOME_LABEL: str(home), PART_LABEL: part}


def write_marker(home: Path, part: str, container: str, engine: ContainerEngine) -> None:
    folder = home / "containers"
    folder.mkdir(mode=0o700, exist_ok=True)
    with replacement(folder / container) as fd:
        write_all(fd, json.dumps({"part": part, "engine": engine.address}).encode())


def delete_marker(home: Path, container: str) -> None:
    """Delete the marker of a container that its engine refused to make."""
    (home / "containers" / container).unlink(missing_ok=True)


def list_markers(home: Path, part: str | None = None) -> list[ContainerMarker]:
    """Markers of all tasks, or of the given task."""
    found = []
    for file in (home / "containers").glob("[!.]*"):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            body = json.loads(file.read_bytes())
            marker = ContainerMarker(file, str(body["part"]), str(body["engine"]))
            found += [marker] if part in (None, marker.part) else []
    return found


def stop_containers(markers: list[ContainerMarker], grace_seconds: float) -> None:
    """Send SIGTERM through their engine and wait for their end. EnvironmentFailed where it does not answer."""
    ends_at = time.monotonic() + grace_seconds
    for marker in markers:
        containers = _engine_of(marker).containers
        if not containers.kill(marker.container, signal.SIGTERM):
            continue
        while (state := containers.state(marker.container)) and state.is_running and time.monotonic() < ends_at:
            time.sleep(_POLL_SECONDS)


def read_container_state(marker: ContainerMarker) -> Json:
    """Tell whether a container ran out of memory. EnvironmentFailed where its engine does not answer."""
    state = _engine_of(marker).containers.state(marker.container)
    return {"oom": state is not None and state.exit.is_out_of_memory}


def remove_containers(home: Path, markers: list[ContainerMarker]) -> None:
    """Kill and remove the containers, with every other container of the same tasks. EnvironmentFailed where an engine
    does not answer; its markers stay, for another try."""
    failure = None
    for marker in markers:
        try:
            _remove(home, marker)
        except EnvironmentFailed as error:
            failure = error
            if marker.age_seconds() > _LOST_ENGINE_SECONDS:  # the engine is gone for good
                marker.file.unlink(missing_ok=True)
    if failure is not None:
        raise failure


def list_orphans(home: Path) -> list[ContainerMarker]:
    """Markers of tasks that have ended."""
    return [marker for marker in list_markers(home) if not TaskFolder(home, marker.part).exists()]


def _remove(home: Path, marker: ContainerMarker) -> None:
    containers = _engine_of(marker).containers
    was_there = containers.state(marker.container) is not None
    containers.remove(marker.container)
    for other in containers.with_labels(container_labels(home, marker.part)):
        containers.remove(other.id)
    # A container that does not exist may still appear: its supervisor was killed while the engine was making it.
    if was_there or marker.age_seconds() > _MAKING_SECONDS:
        marker.file.unlink(missing_ok=True)


def _engine_of(marker: ContainerMarker) -> ContainerEngine:
    """Client of the marker's engine. EnvironmentFailed where it does not answer; at once if its socket is gone."""
    return find_engine({**os.environ, "DOCKER_HOST": marker.engine})


_SOON_SECONDS, _LATER_SECONDS = 5.0, 60.0


class ContainerSweeper:
    """Removes, for an agent, the containers of tasks that have ended.

    It works in a forked child, which nobody waits for: an engine may be slow.
    """

    def __init__(self, home: Path, in_child: Callable[[], None]) -> None:
        """`in_child` is called first in the child."""
        self._home, self._in_child = home, in_child
        self._due: float | None = now()

    def schedule_soon(self) -> None:
        """Sweep in a few seconds: a task has ended, and its engine may still be making a container."""
        self._due = min(self._due or now() + _SOON_SECONDS, now() + _SOON_SECONDS)

    def next_times(self) -> list[float]:
        return [] if self._due is None else [self._due]

    def begin_if_due(self) -> None:
        if self._due is None or self._due > now():
            return
        orphans = list_orphans(self._home)
        self._due = now() + _LATER_SECONDS if orphans else None
        agent = os.getpid()
        if orphans and os.fork() == 0:
            self._run_child(agent)

    def _run_child(self, agent: int) -> None:
        try:
            die_with_parent(agent)
            self._in_child()
            with contextlib.suppress(EnvironmentFailed):  # tried again later
                remove_containers(self._home, list_orphans(self._home))
        finally:
            os._exit(0)
