"""Markers of containers that may still exist: one file each in the home, so that no engine is asked without need."""

import contextlib
import json
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from runyard.containers.engine import Engine
from runyard.containers.finding import find_engine
from runyard.errors import EnvironmentFailed, Json
from runyard.node.attempt import AttemptFolder

HOME_LABEL, PART_LABEL = "runyard.home", "runyard.part"
_POLL_SECONDS = 0.05
_MAKING_SECONDS = 120.0
"""An engine has made a requested container within this time."""
_LOST_ENGINE_SECONDS = 30 * 24 * 3600.0


@dataclass(frozen=True)
class Mark:
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


def labels_of(home: Path, part: str) -> dict[str, str]:
    return {HOME_LABEL: str(home), PART_LABEL: part}


def leave_mark(home: Path, part: str, container: str, engine: Engine) -> None:
    folder = home / "containers"
    folder.mkdir(mode=0o700, exist_ok=True)
    beside = folder / f".{container}"
    beside.write_text(json.dumps({"part": part, "engine": engine.address}), encoding="utf-8")
    beside.rename(folder / container)


def take_mark_back(home: Path, container: str) -> None:
    """Delete the marker of a container that its engine refused to make."""
    (home / "containers" / container).unlink(missing_ok=True)


def marks_in(home: Path, part: str | None = None) -> list[Mark]:
    """Markers of all tasks, or of the given task."""
    found = []
    for file in (home / "containers").glob("[!.]*"):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            body = json.loads(file.read_bytes())
            marker = Mark(file, str(body["part"]), str(body["engine"]))
            found += [marker] if part in (None, marker.part) else []
    return found


def stop_marked(markers: list[Mark], grace_seconds: float) -> None:
    """Send SIGTERM through their engine and wait for their end. EnvironmentFailed where it does not answer."""
    ends_at = time.monotonic() + grace_seconds
    for marker in markers:
        containers = _engine_of(marker).containers
        if not containers.kill(marker.container, signal.SIGTERM):
            continue
        while (state := containers.state(marker.container)) and state.is_running and time.monotonic() < ends_at:
            time.sleep(_POLL_SECONDS)


def state_of(marker: Mark) -> Json:
    """Tell whether a container ran out of memory. EnvironmentFailed where its engine does not answer."""
    state = _engine_of(marker).containers.state(marker.container)
    return {"oom": state is not None and state.exit.is_out_of_memory}


def remove_marked(home: Path, markers: list[Mark]) -> None:
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


def orphans_in(home: Path) -> list[Mark]:
    """Markers of tasks that have ended."""
    return [marker for marker in marks_in(home) if not AttemptFolder(home, marker.part).exists()]


def _remove(home: Path, marker: Mark) -> None:
    containers = _engine_of(marker).containers
    was_there = containers.state(marker.container) is not None
    containers.remove(marker.container)
    for other in containers.with_labels(labels_of(home, marker.part)):
        containers.remove(other.id)
    # A container that does not exist may still appear: its supervisor was killed while the engine was making it.
    if was_there or marker.age_seconds() > _MAKING_SECONDS:
        marker.file.unlink(missing_ok=True)


def _engine_of(marker: Mark) -> Engine:
    """Client of the marker's engine. EnvironmentFailed where it does not answer; at once if its socket is gone."""
    return find_engine({**os.environ, "DOCKER_HOST": marker.engine})
