"""Containers of a home that may still be there, known by a mark each so that nobody asks an engine in vain."""

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
_LOOK_AGAIN_SECONDS = 0.05
_MAKING_SECONDS = 120.0
"""Within which an engine has made what it was asked for."""
_FORGOTTEN_SECONDS = 30 * 24 * 3600.0


@dataclass(frozen=True)
class Mark:
    """Lies in the home from before a container is made until it has been removed."""

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
    """Its engine refused to make it."""
    (home / "containers" / container).unlink(missing_ok=True)


def marks_in(home: Path, part: str | None = None) -> list[Mark]:
    """Of all parts, or of one."""
    found = []
    for file in (home / "containers").glob("[!.]*"):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            body = json.loads(file.read_bytes())
            mark = Mark(file, str(body["part"]), str(body["engine"]))
            found += [mark] if part in (None, mark.part) else []
    return found


def stop_marked(marks: list[Mark], grace_seconds: float) -> None:
    """Ask them to stop, by their engine, and wait for that. EnvironmentFailed where it does not answer."""
    ends_at = time.monotonic() + grace_seconds
    for mark in marks:
        containers = _engine_of(mark).containers
        if not containers.kill(mark.container, signal.SIGTERM):
            continue
        while (state := containers.state(mark.container)) and state.is_running and time.monotonic() < ends_at:
            time.sleep(_LOOK_AGAIN_SECONDS)


def state_of(mark: Mark) -> Json:
    """Whether memory ran out in it. EnvironmentFailed where no engine answers."""
    state = _engine_of(mark).containers.state(mark.container)
    return {"oom": state is not None and state.exit.is_out_of_memory}


def remove_marked(home: Path, marks: list[Mark]) -> None:
    """By force, and with every other container of the same parts. EnvironmentFailed where an engine does not answer:
    its marks stay then, for another try."""
    trouble = None
    for mark in marks:
        try:
            _remove(home, mark)
        except EnvironmentFailed as error:
            trouble = error
            if mark.age_seconds() > _FORGOTTEN_SECONDS:  # an engine of long ago
                mark.file.unlink(missing_ok=True)
    if trouble is not None:
        raise trouble


def orphans_in(home: Path) -> list[Mark]:
    """Marks of parts that are no more."""
    return [mark for mark in marks_in(home) if not AttemptFolder(home, mark.part).exists()]


def _remove(home: Path, mark: Mark) -> None:
    containers = _engine_of(mark).containers
    was_there = containers.state(mark.container) is not None
    containers.remove(mark.container)
    for stray in containers.with_labels(labels_of(home, mark.part)):
        containers.remove(stray.id)
    # One that is not there may yet come: who asked for it was killed, and the engine still makes it.
    if was_there or mark.age_seconds() > _MAKING_SECONDS:
        mark.file.unlink(missing_ok=True)


def _engine_of(mark: Mark) -> Engine:
    """EnvironmentFailed where it does not answer. One whose socket is gone is not waited for."""
    return find_engine({**os.environ, "DOCKER_HOST": mark.engine})
