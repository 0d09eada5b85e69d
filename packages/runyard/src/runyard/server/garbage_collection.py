import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from runyard.access.authorization import Access
from runyard.access.blobs import CallerBlobs
from runyard.core.durable_files import is_locked
from runyard.core.errors import Conflict, NotFound
from runyard.core.policy import Action
from runyard.core.ports.clock import Clock
from runyard.core.ports.stores import AssetStore, FileStore, RunStore
from runyard.core.principal import Principal
from runyard.core.records.runs import AttemptId, RunId, run_of
from runyard.core.run_folders import MOUNTS, RUN_FOLDERS, script_folders

_MOST_LOGS_ASKED = 200
_FEW_UNKNOWN = 2
_HINT = "Is it the right one? `runyard restore FOLDER` restores a backup; `runyard check` names what has no owner."


@dataclass(frozen=True)
class Freed:
    count: int
    bytes: int


Cache = Callable[[timedelta], list[str]]
"""Removes entries that were not used for that long and can be rebuilt; returns their names."""


class GarbageCollector:
    """Disk usage of the home, and removal of what nothing refers to any more.

    `caches` are parts of the home that can be rebuilt, by their names there.
    """

    def __init__(
        self,
        home: Path,
        runs: RunStore,
        assets: AssetStore,
        files: FileStore,
        blobs: CallerBlobs,
        clock: Clock,
        access: Access,
        caches: Mapping[str, Cache],
    ) -> None:
        self._home, self._runs, self._assets, self._files = home, runs, assets, files
        self._blobs, self._clock, self._access = blobs, clock, access
        self._caches = caches

    def used(self, who: Principal) -> dict[str, int]:
        """Bytes of each part of the home, by its name there, without mounts of runs. A cache within a part is counted
        separately."""
        self._access.service(who, Action.OPERATE_SERVICE)
        with os.scandir(self._home) as entries:
            parts = sorted((entry for entry in entries if entry.name != MOUNTS), key=lambda entry: entry.name)
        sizes = {part.name: self._bytes_of(part.name) for part in parts}
        for part in filter(lambda part: "/" in part, self._caches):
            sizes[part] = self._bytes_of(part)
            sizes[part.partition("/")[0]] = max(0, sizes.get(part.partition("/")[0], 0) - sizes[part])
        return sizes

    def collect(self, who: Principal, older_than: timedelta) -> dict[str, Freed]:
        """Remove unreferenced blobs, folders of attempts that ended long ago, and unused cache entries. Never removes
        what an unfinished run may need.

        Raises Conflict, and removes nothing, if the database seems to belong to another home, or during a backup.
        """
        self._access.service(who, Action.OPERATE_SERVICE)
        self._require_own_database()
        blobs = Freed(*self._blobs.delete_unused(self._files.used_blobs(), older_than.total_seconds()))
        freed = {"attempts": self._collect_attempts(older_than), "blobs": blobs}
        for part, remove_unused in self._caches.items():
            before = self._bytes_of(part)
            removed = remove_unused(older_than)
            freed[part] = Freed(len(removed), max(0, before - self._bytes_of(part)))
        return freed

    def _require_own_database(self) -> None:
        """Raises Conflict if many logs belong to unknown runs: logs are deleted with their runs, so the database is not
        the one of this home."""
        if not self._assets.list_workspaces():
            raise Conflict("The database is empty, so nothing of the home is collected.", hint=_HINT)
        logs = self._home / "logs"
        found = sorted(entry.name for entry in os.scandir(logs)) if logs.is_dir() else []
        asked = found[:: len(found) // _MOST_LOGS_ASKED + 1]
        unknown = [name for name in asked if not self._knows(RunId(name))]
        if len(unknown) > max(_FEW_UNKNOWN, len(asked) // 10) or (unknown and len(unknown) == len(asked)):
            raise Conflict(
                f"The database does not know {len(unknown)} of {len(asked)} runs that have logs in the home "
                f"({unknown[0]!r} is one), so nothing is collected.",
                hint=_HINT,
            )

    def _knows(self, run_id: RunId) -> bool:
        try:
            self._runs.get(run_id)
        except NotFound:
            return False
        return True

    def _collect_attempts(self, older_than: timedelta) -> Freed:
        size, names = 0, set()
        for folder in self._dead_attempts(older_than):
            size += _bytes_below(folder)
            names.add(folder.name)
            shutil.rmtree(folder, ignore_errors=True)
        return Freed(len(names), size)

    def _dead_attempts(self, older_than: timedelta) -> Iterator[Path]:
        for folder in self._attempt_folders():
            try:
                run = self._runs.get(run_of(AttemptId(folder.name)))
                ended_at = run.ended_at if run.status.is_terminal else None
                is_old = ended_at is not None and self._clock.now() - ended_at >= older_than
            except NotFound:
                is_old = True
            if is_old and not is_locked(self._home / "attempts" / folder.name / "lock"):
                yield folder

    def _attempt_folders(self) -> Iterator[Path]:
        """Folders of scripts first; the private folder, which has the lock, comes last."""
        for root in script_folders(self._home):
            yield from sorted(root.iterdir()) if root.is_dir() else ()

    def _bytes_of(self, part: str) -> int:
        """Bytes of a part of the home; follows the link of one that the operator has moved elsewhere."""
        place = self._home / part
        return _bytes_below(Path(os.path.realpath(place)) if part.partition("/")[0] in RUN_FOLDERS else place)


def _bytes_below(path: Path) -> int:
    """Allocated bytes on disk, correct for sparse and small files; files that vanish meanwhile count as 0."""
    total = 0
    with suppress(FileNotFoundError, NotADirectoryError):
        total += path.lstat().st_blocks * 512
        if path.is_dir() and not path.is_symlink():
            with os.scandir(path) as entries:
                total += sum(_bytes_below(Path(entry.path)) for entry in entries)
    return total
