"""Checks a home for damaged data and orphaned files, and repairs what can be repaired without loss.

Damaged and orphaned files are moved to a folder `damaged-TIME` of the home, never deleted.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path

from runyard.backup.checking import (
    Blobs,
    Finding,
    Ownerless,
    blob_findings,
    check_blobs,
    check_database,
    check_folders,
    left_mounts,
)
from runyard.backup.folder import BackupFolder
from runyard.backup.taking import DATABASE_FILE, Report
from runyard.blobs.disk import sync_folder
from runyard.blobs.files import FileBlobStore
from runyard.environments.cache import remove_unfinished
from runyard.errors import Conflict, NotFound
from runyard.node.data.mount_points import sweep_left
from runyard.settings import Settings
from runyard.stores.database import open_database
from runyard.stores.database_copy import sqlite_faults
from runyard.stores.rebuilding import rebuild_sqlite

WithoutService = Callable[[], AbstractContextManager[None]]


class HomeCheck:
    """`stopped` gives a context for work that needs the service stopped; entering it raises Conflict while one runs."""

    def __init__(self, settings: Settings, report: Report, stopped: WithoutService) -> None:
        self._settings, self._report, self._stopped = settings, report, stopped
        self._home, self._aside = settings.home, _Aside(settings.home)

    def check(self) -> list[Finding]:
        """List all problems and change nothing."""
        self._require_database()
        found = check_database(self._settings, self._report)
        return found + self._check_files(found, repair=False, backup=None)

    def repair(self, backup: BackupFolder | None) -> list[Finding]:
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

    def _check_files(self, broken: Sequence[Finding], *, repair: bool, backup: BackupFolder | None) -> list[Finding]:
        """Check, and with `repair` fix, files and folders. Not possible if the database cannot be read."""
        database = open_database(self._settings.store_url)
        try:
            with database.engine.connect() as connection:
                blobs = check_blobs(self._home, connection, self._report)
            folders = check_folders(self._home, database)
        except Exception:
            if broken:
                text = "The files could not be checked, since the database cannot be read."
                return [Finding("files", text)]
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

    def _repaired_database(self, found: list[Finding]) -> list[Finding]:
        """Rebuild SQLite from every readable row. PostgreSQL is left to its own tools."""
        if not found or self._settings.database_url:
            return found
        try:
            with self._stopped():
                return self._rebuilt(found)
        except Conflict as error:
            return [*found, Finding("database", f"It was not repaired: {error}")]

    def _rebuilt(self, found: Sequence[Finding]) -> list[Finding]:
        file = self._home / DATABASE_FILE
        new = self._home / f"{DATABASE_FILE}.rebuilt"
        for name in ("", "-wal", "-shm", ".lock"):
            new.with_name(new.name + name).unlink(missing_ok=True)
        lost = rebuild_sqlite(file, new)
        if faults := sqlite_faults(new):
            return [*found, Finding("database", f"It could not be built again: {faults[0]}.")]
        for name in ("", "-wal", "-shm"):
            self._aside.take(f"{DATABASE_FILE}{name}")
        os.rename(new, file)
        for name in ("-wal", "-shm", ".lock"):
            new.with_name(new.name + name).unlink(missing_ok=True)
        sync_folder(self._home)
        how = f"built again from the rows that can be read; the damaged file is in {self._aside.folder}"
        mended = [Finding(one.part, one.what, one.is_damage, how) for one in found]
        return mended + [Finding("database", f"Lost: {what}.") for what in lost]

    def _repaired_blobs(self, blobs: Blobs, backup: BackupFolder | None) -> list[Finding]:
        for sha256 in blobs.altered:
            self._aside.take(f"blobs/{sha256[:2]}/{sha256}")
        back = self._restored_blobs({ref.sha256 for ref in blobs.missing} | blobs.altered, backup)

        def done(sha256: str) -> str:
            if sha256 in back:
                return "brought back from the backup"
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

    def _repaired_folders(self, folders: Ownerless, *, is_certain: bool) -> list[Finding]:
        """Move orphaned folders aside, unless rows are lost: the folders may belong to those rows."""
        if not is_certain:
            return _folder_findings(folders, self._home)
        found: list[Finding] = []
        done: dict[str, str] = {}
        if folders.paths:
            try:
                done = self._move_orphans_aside()
            except Conflict as error:
                found.append(Finding("folders", f"They were not moved: {error}", is_damage=False))
        if folders.unbuilt_environments:
            remove_unfinished(self._home / "environments")
            done |= {
                path: "removed; it is made again when a run needs it"
                for path in folders.unbuilt_environments
                if not (self._home / path).exists()
            }
        mounts = left_mounts(self._home)
        sweep_left(self._home)
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
    folders: Ownerless, home: Path, done: dict[str, str] | None = None, mounts: Sequence[str] | None = None
) -> list[Finding]:
    done = done or {}
    found = [
        Finding("folders", f"{path} belongs to nothing in the database.", False, done.get(path, ""))
        for path in folders.paths
    ]
    found += [
        Finding("folders", f"{path} is an environment that was not finished.", False, done.get(path, ""))
        for path in folders.unbuilt_environments
    ]
    found += [
        Finding("folders", f"{path} was left by a run that is no more.", False, done.get(path, ""))
        for path in (left_mounts(home) if mounts is None else mounts)
    ]
    return found
