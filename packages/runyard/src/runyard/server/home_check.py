"""Checks a home for damaged data and orphaned files, and repairs what can be repaired without loss.

Damaged and orphaned files are moved to a folder `damaged-TIME` of the home, never deleted.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Connection, select

from runyard.core.disk import sync_folder
from runyard.core.durable_files import is_locked
from runyard.core.errors import Conflict, NotFound
from runyard.core.records.runs import AttemptId, run_of
from runyard.core.settings import Settings
from runyard.environments.cache import NOT_ENVIRONMENTS, remove_unfinished
from runyard.node.data.mount_points import unmount_leftovers
from runyard.storage.backup.folder import BackupFolder
from runyard.storage.backup.snapshot import DATABASE_FILE, ReportProgress
from runyard.storage.blobs.file_copy import hash_file
from runyard.storage.blobs.store import FileBlobStore
from runyard.storage.sql.database import Database, open_database
from runyard.storage.sql.database_copy import sqlite_faults
from runyard.storage.sql.files import BlobReference, blob_references, named_blobs
from runyard.storage.sql.salvage import is_damage, rebuild_sqlite
from runyard.storage.sql.schema import metadata, runs

WithoutService = Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True)
class BlobCheck:
    """Result of checking the blobs of a home."""

    altered: frozenset[str]
    missing: tuple[BlobReference, ...]
    """Files of runs, snapshots and assets whose blob is missing, altered or has another size."""
    unnamed: int
    unnamed_bytes: int


@dataclass(frozen=True)
class HomeFinding:
    """One problem of a home. `is_damage`: stored data is lost or cannot be trusted."""

    part: str
    what: str
    is_damage: bool = True
    repaired: str = ""
    """What a repair did about it; "" if nothing."""


@dataclass(frozen=True)
class OrphanedPaths:
    """Paths below the home without a row in the database and without a process that uses them."""

    paths: tuple[str, ...]
    unbuilt_environments: tuple[str, ...]


class HomeCheck:
    """`stopped` gives a context for work that needs the service stopped; entering it raises Conflict while one runs."""

    def __init__(self, settings: Settings, report: ReportProgress, stopped: WithoutService) -> None:
        self._settings, self._report, self._stopped = settings, report, stopped
        self._home, self._aside = settings.home, _Aside(settings.home)

    def check(self) -> list[HomeFinding]:
        """List all problems and change nothing."""
        self._require_database()
        found = check_database(self._settings, self._report)
        return found + self._check_files(found, repair=False, backup=None)

    def repair(self, backup: BackupFolder | None) -> list[HomeFinding]:
        """Repair what can be repaired. Damaged and missing files are restored from `backup` if it has them."""
        self._require_database()
        found = self._repaired_database(check_database(self._settings, self._report))
        return found + self._check_files([one for one in found if not one.repaired], repair=True, backup=backup)

    def _require_database(self) -> None:
        if not self._settings.database_url and not (self._home / DATABASE_FILE).is_file():
            raise NotFound(
                f"The home {str(self._home)!r} has no database.",
                hint="Set RUNYARD_HOME, or RUNYARD_DATABASE_URL where it uses PostgreSQL; else: runyard restore FOLDER",
            )

    def _check_files(
        self, broken: Sequence[HomeFinding], *, repair: bool, backup: BackupFolder | None
    ) -> list[HomeFinding]:
        """Check, and with `repair` fix, files and folders. Not possible if the database cannot be read."""
        database = open_database(self._settings.store_url)
        try:
            with database.engine.connect() as connection:
                blobs = check_blobs(self._home, connection, self._report)
            folders = check_folders(self._home, database)
        except Exception:
            if broken:
                text = "The files could not be checked, since the database cannot be read."
                return [HomeFinding("files", text)]
            raise
        finally:
            database.close()
        if not repair:
            return blob_findings(blobs) + _folder_findings(folders, self._home)
        self._report("repair", 0, 0)
        return self._repaired_blobs(blobs, backup) + self._repaired_folders(folders, is_certain=not broken)

    def _move_orphans_aside(self) -> dict[str, str]:
        """Move orphaned folders aside; returns the action for each. Raises Conflict while a service runs: an import,
        for example, writes the logs of a run before its row."""
        with self._stopped():
            database = open_database(self._settings.store_url)
            try:
                paths = check_folders(self._home, database).paths
            finally:
                database.close()
            for path in paths:
                self._aside.take(path)
        return dict.fromkeys(paths, f"moved to {self._aside.folder}")

    def _repaired_database(self, found: list[HomeFinding]) -> list[HomeFinding]:
        """Rebuild SQLite from every readable row. PostgreSQL is left to its own tools."""
        if not found or self._settings.database_url:
            return found
        try:
            with self._stopped():
                return self._rebuilt(found)
        except Conflict as error:
            return [*found, HomeFinding("database", f"It was not repaired: {error}")]

    def _rebuilt(self, found: Sequence[HomeFinding]) -> list[HomeFinding]:
        file = self._home / DATABASE_FILE
        new = self._home / f"{DATABASE_FILE}.rebuilt"
        for name in ("", "-wal", "-shm", ".lock"):
            new.with_name(new.name + name).unlink(missing_ok=True)
        lost = rebuild_sqlite(file, new)
        if faults := sqlite_faults(new):
            return [*found, HomeFinding("database", f"It could not be built again: {faults[0]}.")]
        for name in ("", "-wal", "-shm"):
            self._aside.take(f"{DATABASE_FILE}{name}")
        os.rename(new, file)
        for name in ("-wal", "-shm", ".lock"):
            new.with_name(new.name + name).unlink(missing_ok=True)
        sync_folder(self._home)
        how = f"built again from the rows that can be read; the damaged file is in {self._aside.folder}"
        repaired = [HomeFinding(one.part, one.what, one.is_damage, how) for one in found]
        return repaired + [HomeFinding("database", f"Lost: {what}.") for what in lost]

    def _repaired_blobs(self, blobs: BlobCheck, backup: BackupFolder | None) -> list[HomeFinding]:
        for sha256 in blobs.altered:
            self._aside.take(f"blobs/{sha256[:2]}/{sha256}")
        back = self._restored_blobs({ref.sha256 for ref in blobs.missing} | blobs.altered, backup)

        def done(sha256: str) -> str:
            if sha256 in back:
                return "restored from the backup"
            # A referenced file stays lost without its content; only an unreferenced blob is repaired by moving it.
            is_named = any(reference.sha256 == sha256 for reference in blobs.missing)
            return "" if is_named else f"moved to {self._aside.folder}"

        return blob_findings(blobs, done)

    def _restored_blobs(self, wanted: set[str], backup: BackupFolder | None) -> set[str]:
        if backup is None:
            return set()
        backup.require()
        kept, here = backup.blobs, FileBlobStore(self._home / "blobs")
        paths = {sha256: path for sha256 in wanted if (path := kept.local_path(sha256)) is not None}
        stored = here.put_files(list(paths.values()))
        return {sha256 for sha256, (found, _) in zip(paths, stored, strict=True) if found == sha256}

    def _repaired_folders(self, folders: OrphanedPaths, *, is_certain: bool) -> list[HomeFinding]:
        """Move orphaned folders aside, unless rows are lost: the folders may belong to those rows."""
        if not is_certain:
            return _folder_findings(folders, self._home)
        found: list[HomeFinding] = []
        done: dict[str, str] = {}
        if folders.paths:
            try:
                done = self._move_orphans_aside()
            except Conflict as error:
                found.append(HomeFinding("folders", f"They were not moved: {error}", is_damage=False))
        if folders.unbuilt_environments:
            remove_unfinished(self._home / "environments")
            done |= {
                path: "removed; it is made again when a run needs it"
                for path in folders.unbuilt_environments
                if not (self._home / path).exists()
            }
        mounts = leftover_mounts(self._home)
        unmount_leftovers(self._home)
        done |= {path: "unmounted" for path in mounts if not (self._home / path).exists()}
        return _folder_findings(folders, self._home, done, mounts) + found


class _Aside:
    """The folder for damaged files; created on first use."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self.folder = home / f"damaged-{datetime.now(UTC).strftime('%Y%m%dT%H%M%SZ')}"

    def take(self, path: str) -> None:
        """Move a path of the home to the folder; does nothing if it is gone."""
        target = self.folder / path
        if (self._home / path).exists():
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.rename(self._home / path, target)


def _folder_findings(
    folders: OrphanedPaths, home: Path, done: dict[str, str] | None = None, mounts: Sequence[str] | None = None
) -> list[HomeFinding]:
    done = done or {}
    found = [
        HomeFinding("folders", f"{path} belongs to nothing in the database.", False, done.get(path, ""))
        for path in folders.paths
    ]
    found += [
        HomeFinding("folders", f"{path} is an environment that was not finished.", False, done.get(path, ""))
        for path in folders.unbuilt_environments
    ]
    found += [
        HomeFinding("folders", f"{path} was left by a run that is no more.", False, done.get(path, ""))
        for path in (leftover_mounts(home) if mounts is None else mounts)
    ]
    return found


_REPORTED_EVERY = 256
_NAMED_FAULTS = 20


def check_database(settings: Settings, report: ReportProgress) -> list[HomeFinding]:
    """Check with SQLite's integrity check, if it is SQLite, and by reading every row."""
    report("database", 0, 0)
    faults = [] if settings.database_url else sqlite_faults(settings.home / DATABASE_FILE)
    found = [HomeFinding("database", fault) for fault in faults[:_NAMED_FAULTS]]
    database = open_database(settings.store_url)
    try:
        for table in metadata.sorted_tables:
            report(f"table {table.name}", 0, 0)
            with database.engine.connect() as connection:
                try:
                    for _ in connection.execution_options(yield_per=1000).execute(select(table)):
                        pass
                except Exception as error:
                    if not is_damage(error):
                        raise
                    reason = str(getattr(error, "orig", error)).strip().splitlines()[0]
                    found.append(HomeFinding("database", f"The table {table.name} cannot be read whole: {reason}."))
    finally:
        database.close()
    return found


def check_blobs(home: Path, connection: Connection, report: ReportProgress) -> BlobCheck:
    """Hash every blob and compare with the references in the database."""
    named = named_blobs(connection)
    sizes: dict[str, int] = {}
    altered: set[str] = set()
    unnamed = unnamed_bytes = 0
    for done, file in enumerate(_blob_files(home)):
        if done % _REPORTED_EVERY == 0:
            report("blobs", done, len(named))
        try:
            with open(file.path, "rb") as blob:
                sha256, size = hash_file(blob.fileno())
        except FileNotFoundError:
            continue  # deleted meanwhile by garbage collection
        except OSError:
            sha256, size = "", 0  # unreadable on disk
        if sha256 != file.name:
            altered.add(file.name)
        elif file.name in named:
            sizes[file.name] = size
        else:
            unnamed, unnamed_bytes = unnamed + 1, unnamed_bytes + size
    missing = [
        reference
        for reference in blob_references(connection)
        if reference.sha256 not in sizes or reference.size not in (None, sizes[reference.sha256])
    ]
    return BlobCheck(frozenset(altered), tuple(missing), unnamed, unnamed_bytes)


def check_folders(home: Path, database: Database) -> OrphanedPaths:
    """Find orphaned folders, except those of web services: the service removes these when it starts."""
    of_runs = [f"{part}/{name}" for part in ("logs", "interactive") for name in _names(home / part)]
    attempts = _names(home / "attempts")
    # Read after the folders: a run has a row before it has a folder.
    with database.engine.connect() as connection:
        known = set(connection.execute(select(runs.c.id)).scalars())
    paths = [path for path in of_runs if path.partition("/")[2] not in known]
    for name in attempts:
        if run_of(AttemptId(name)) not in known and not is_locked(home / "attempts" / name / "lock"):
            paths.append(f"attempts/{name}")
    unbuilt = [
        f"environments/{name}"
        for name in _names(home / "environments")
        if name not in NOT_ENVIRONMENTS and not (home / "environments" / name / ".ready").exists()
        if not is_locked(home / "environments" / "locks" / f"{name}.builder")
    ]
    return OrphanedPaths(tuple(paths), tuple(unbuilt))


def leftover_mounts(home: Path) -> list[str]:
    """Mount points of attempts that no longer exist."""
    return [f"mounts/{name}" for name in _names(home / "mounts") if not (home / "attempts" / name).exists()]


def blob_findings(blobs: BlobCheck, repaired: Callable[[str], str] = lambda sha256: "") -> list[HomeFinding]:
    named = {reference.sha256 for reference in blobs.missing}
    found = [
        HomeFinding(
            "files",
            f"{reference.path!r} of {reference.owner} is "
            f"{'altered' if reference.sha256 in blobs.altered else 'missing'} (blob {reference.sha256}).",
            repaired=repaired(reference.sha256),
        )
        for reference in blobs.missing
    ]
    found += [
        HomeFinding("files", f"The blob {sha256}, which nothing names, is altered.", False, repaired(sha256))
        for sha256 in sorted(blobs.altered - named)
    ]
    if blobs.unnamed:
        text = f"{blobs.unnamed} blobs ({blobs.unnamed_bytes} bytes) are named by nothing; `runyard gc` frees old ones."
        found.append(HomeFinding("files", text, is_damage=False))
    return found


def _blob_files(home: Path) -> Iterator["os.DirEntry[str]"]:
    for shard in _names(home / "blobs"):
        if len(shard) == 2:
            yield from sorted(os.scandir(home / "blobs" / shard), key=lambda entry: entry.name)


def _names(folder: Path) -> list[str]:
    """Names of the folders in it, sorted."""
    try:
        return sorted(entry.name for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        return []
