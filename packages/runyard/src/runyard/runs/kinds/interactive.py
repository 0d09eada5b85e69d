import fcntl
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from runyard.core.errors import RunyardError
from runyard.core.lookups import find_run
from runyard.core.ports.clock import Clock
from runyard.core.ports.stores import RunStore
from runyard.core.principal import SERVICE
from runyard.core.records.runs import RunId, RunRecord, RunStatus
from runyard.runs.children import close_interactive_children
from runyard.runs.history.journals import Journals
from runyard.runs.kinds.kind import KindTools, RunKind

CAUSE = "The process that logged to this run ended without run.complete()."
_PIECE_BYTES = 4 << 20
_STALE_SECONDS = 60.0


class InteractiveKind(RunKind):
    """A run of a process that we did not start: a notebook, or a script that logs. It is not launched or stopped."""

    name = "interactive"
    title = "interactive run"
    needs_script = False

    def __init__(self, tools: KindTools) -> None:
        super().__init__(tools)
        self._abandoned = AbandonedRuns(tools.home / "interactive", tools.runs, tools.journals, tools.clock)

    def reconcile(self, own: Sequence[RunRecord], unfinished: Sequence[RunRecord]) -> bool:
        self._abandoned.reconcile()
        return False

    def cancel(self, run: RunRecord, *, end_as: RunStatus) -> None:
        """End the run. Its script goes on, and learns of the end when it logs again."""
        close_interactive_children(self.tools.runs, self.tools.runs.move(run, end_as))


class AbandonedRuns:
    """Finds interactive runs whose process is gone, stores what it logged and fails the run.

    `folder/RUN_ID` holds journals (`*.jsonl`) and claims (`owner-*`), each locked by its process while that lives. A
    file is locked before it gets its final name; until then the name begins with a dot.
    """

    def __init__(self, folder: Path, runs: RunStore, journals: Journals, clock: Clock) -> None:
        self._folder, self._runs, self._journals, self._clock = folder, runs, journals, clock

    def reconcile(self) -> None:
        """Store unlocked journals and end abandoned runs. Safe to repeat: what fails is retried at the next call."""
        try:
            folders = [Path(entry.path) for entry in os.scandir(self._folder) if entry.is_dir(follow_symlinks=False)]
        except FileNotFoundError:
            return
        # All journals first: whoever sees that a run has ended must see all that it and its children logged.
        for step in (self._store_journals, self._end_if_abandoned, _tidy):
            for folder in folders:
                with suppress(RunyardError, OSError):
                    step(folder)

    def _store_journals(self, folder: Path) -> None:
        run = find_run(self._runs, RunId(folder.name))
        for name in sorted(os.listdir(folder)):
            if name.endswith(".jsonl") and not name.startswith("."):
                self._store_journal(run, folder / name)

    def _end_if_abandoned(self, folder: Path) -> None:
        claims = [folder / name for name in os.listdir(folder) if name.startswith("owner-")]
        if not claims or any(_is_locked(path) for path in claims):
            return
        run = find_run(self._runs, RunId(folder.name))
        if run is not None and not run.status.is_terminal:
            self._end(run)
        for path in claims:
            path.unlink(missing_ok=True)

    def _store_journal(self, run: RunRecord | None, path: Path) -> None:
        with _locked(path) as journal:
            if journal is None:
                return
            if run is not None:
                self._store(run.id, path.stem, journal)
            path.unlink(missing_ok=True)

    def _store(self, run_id: RunId, name: str, journal: BinaryIO) -> None:
        """Store whole lines. An incomplete last line is dropped: the process was killed while writing it."""
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
        """Fail the run. Raises Conflict if another thread has changed it."""
        error = {
            "error": {"code": "UserError", "message": CAUSE, "messageParameters": {}, "details": []},
            "time": self._clock.now().isoformat().replace("+00:00", "Z"),
        }
        close_interactive_children(self._runs, self._runs.move(run, RunStatus.FAILED, error=error))


@contextmanager
def _locked(path: Path) -> Iterator[BinaryIO | None]:
    """Lock and open the file; None if its process holds the lock, or the file is gone."""
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


def _is_locked(path: Path) -> bool:
    with _locked(path) as file:
        return file is None and path.exists()


def _tidy(folder: Path) -> None:
    """Remove unnamed files of killed processes, and the folder if it is empty."""
    for hidden in (folder / name for name in os.listdir(folder) if name.startswith(".")):
        if not _is_locked(hidden) and time.time() - hidden.stat().st_mtime > _STALE_SECONDS:
            hidden.unlink(missing_ok=True)
    with suppress(OSError):  # not empty: still in use
        folder.rmdir()
