import fcntl
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from runyard.core.principal import SERVICE
from runyard.errors import NotFound, RunyardError
from runyard.model.runs import RunId, RunRecord, RunStatus
from runyard.ports.clock import Clock
from runyard.ports.stores import RunStore
from runyard.runs.children import close_open_children
from runyard.runs.history.journals import Journals
from runyard.runs.kinds.kind import KindTools, RunKind

CAUSE = "The process that logged to this run ended without run.complete()."
_PIECE_BYTES = 4 << 20
_STALE_SECONDS = 60.0


class InteractiveKind(RunKind):
    """Runs whose process is not ours: a notebook or a script that logs. Nothing is launched, watched or stopped."""

    name = "interactive"
    title = "interactive run"
    needs_script = False

    def __init__(self, tools: KindTools) -> None:
        super().__init__(tools)
        self._abandoned = AbandonedRuns(tools.home / "interactive", tools.runs, tools.journals, tools.clock)

    def look(self, own: Sequence[RunRecord], unfinished: Sequence[RunRecord]) -> bool:
        self._abandoned.look()
        return False

    def cancel(self, run: RunRecord, *, end_as: RunStatus) -> None:
        """Its script goes on, and is told that the run has ended when it logs again."""
        close_open_children(self.tools.runs, self.tools.runs.move(run, end_as))


class AbandonedRuns:
    """Interactive runs whose process is gone: what it logged is stored, and the run is ended.

    `folder/RUN_ID` holds journals (`*.jsonl`) and claims (`owner-*`), each locked by the process that wrote it for
    as long as that lives. A file is locked before it gets its name; until then the name begins with a dot.
    """

    def __init__(self, folder: Path, runs: RunStore, journals: Journals, clock: Clock) -> None:
        self._folder, self._runs, self._journals, self._clock = folder, runs, journals, clock

    def look(self) -> None:
        """Take in what nobody holds. Safe to repeat; what cannot be stored now stays for the next time."""
        try:
            places = [Path(entry.path) for entry in os.scandir(self._folder) if entry.is_dir(follow_symlinks=False)]
        except FileNotFoundError:
            return
        # All journals first: a run that is seen to have ended, and its children, have all that was logged.
        for step in (self._take_in_journals, self._end_if_abandoned, _tidy):
            for place in places:
                with suppress(RunyardError, OSError):
                    step(place)

    def _take_in_journals(self, place: Path) -> None:
        run = self._find(RunId(place.name))
        for name in sorted(os.listdir(place)):
            if name.endswith(".jsonl") and not name.startswith("."):
                self._take_in(run, place / name)

    def _end_if_abandoned(self, place: Path) -> None:
        claims = [place / name for name in os.listdir(place) if name.startswith("owner-")]
        if not claims or any(_is_held(path) for path in claims):
            return
        run = self._find(RunId(place.name))
        if run is not None and not run.status.is_terminal:
            self._end(run)
        for path in claims:
            path.unlink(missing_ok=True)

    def _find(self, run_id: RunId) -> RunRecord | None:
        try:
            return self._runs.get(run_id)
        except NotFound:
            return None

    def _take_in(self, run: RunRecord | None, path: Path) -> None:
        with _held_by_nobody(path) as journal:
            if journal is None:
                return
            if run is not None:
                self._store(run.id, path.stem, journal)
            path.unlink(missing_ok=True)

    def _store(self, run_id: RunId, name: str, journal: BinaryIO) -> None:
        """A last line without its end was being written at the kill; its call never returned."""
        offset, size = self._journals.offsets(SERVICE, run_id).get(name, 0), _PIECE_BYTES
        while True:
            piece = os.pread(journal.fileno(), size, offset)
            end = piece.rfind(b"\n") + 1
            if end:
                offset, size = self._journals.append(SERVICE, run_id, name, offset, piece[:end]), _PIECE_BYTES
            elif len(piece) < size:
                return
            else:
                size *= 2

    def _end(self, run: RunRecord) -> None:
        """Raises Conflict when somebody else changed the run since."""
        error = {
            "error": {"code": "UserError", "message": CAUSE, "messageParameters": {}, "details": []},
            "time": self._clock.now().isoformat().replace("+00:00", "Z"),
        }
        close_open_children(self._runs, self._runs.move(run, RunStatus.FAILED, error=error))


@contextmanager
def _held_by_nobody(path: Path) -> Iterator[BinaryIO | None]:
    """The file, locked; None while the process that wrote it lives, or when it is gone."""
    try:
        file = open(os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC), "r+b", buffering=0)  # noqa: SIM115
    except FileNotFoundError:
        yield None
        return
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
        else:
            yield file


def _is_held(path: Path) -> bool:
    with _held_by_nobody(path) as file:
        return file is None and path.exists()


def _tidy(place: Path) -> None:
    """Remove what a process killed before its file had a name, and a folder that nobody uses."""
    for hidden in (place / name for name in os.listdir(place) if name.startswith(".")):
        if not _is_held(hidden) and time.time() - hidden.stat().st_mtime > _STALE_SECONDS:
            hidden.unlink(missing_ok=True)
    with suppress(OSError):  # somebody still logs to it
        place.rmdir()
