"""Restores a home from a backup."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from sqlalchemy import inspect, select, update

from runyard.core.disk import disk_errors_explained, sync_folder
from runyard.core.errors import Conflict, InvalidArgument, RunyardError
from runyard.core.settings import Settings
from runyard.process_logs import LOG_FOLDER
from runyard.storage.backup.folder import POSTGRESQL, BackupFolder, KeptFile, Manifest
from runyard.storage.backup.snapshot import DATABASE_FILE, FILES_AT_ONCE, ReportProgress
from runyard.storage.blobs.file_copy import copy_and_hash
from runyard.storage.blobs.store import FileBlobStore
from runyard.storage.home import RESTORING
from runyard.storage.sql.database import open_database
from runyard.storage.sql.database_copy import copy_rows, load_postgres
from runyard.storage.sql.lease import free_lease
from runyard.storage.sql.schema import metadata, runs, schema_version
from runyard.storage.sql.stores import open_stores

_CREATED_BY_START = frozenset(
    {"service.lock", "start.lock", "service.log", "start-error.json", "runyard-path", "lost+found", LOG_FOLDER}
)
_PARTIAL_START_ERROR = ".start-error.json."


_ASIDE = "replaced"
_MOVING = "moving aside what was here\n"
"""Content of the marker before it names the backup: the next restore then also moves the rest aside."""


@dataclass(frozen=True)
class RestoreSummary:
    name: str
    taken_at: str
    home: str
    blobs: int
    files: int
    moved_aside: str
    """Folder with the former content of the home; empty if there was none."""
    notes: tuple[str, ...]


def restore_backup(
    folder: BackupFolder,
    home: Path,
    database_url: str,
    report: ReportProgress,
    *,
    name: str | None,
    replace: bool,
    leave_out_damaged: bool = False,
) -> RestoreSummary:
    """Restore a home from one snapshot. The caller holds the home's service lock.

    With `replace`, the content of the home is moved aside first; nothing is deleted. Raises Conflict for a home or a
    PostgreSQL database that is not empty, and RunyardError for a damaged backup; with `leave_out_damaged`, damaged
    files are skipped and listed in the notes. The next restore resumes one that was killed; until then the service
    refuses the home.
    """
    folder.require()
    manifest = folder.manifest(name)
    database = folder.checked_part(manifest, manifest.database)
    _check_database(manifest, database_url)
    with disk_errors_explained(home):
        moved = _begin(home, f"{folder.root} {manifest.name}\n", replace)
        restore = _Restore(folder, manifest, home, report, leave_out_damaged)
        restore.fill()
        report("database", 0, 0)
        _load(manifest, database, home, database_url)
        _free_lease_and_runs(database_url or f"sqlite:///{home / DATABASE_FILE}")
        sync_folder(home)
        (home / RESTORING).unlink()
        sync_folder(home)
    return RestoreSummary(
        manifest.name,
        manifest.taken_at,
        str(home),
        manifest.blobs.count,
        manifest.files.count,
        moved,
        (*manifest.notes, *restore.left_out),
    )


def move_aside(home: Path, names: Iterator[str], why: str) -> str:
    """Move parts of a home to a new folder `WHY-TIME` of it; returns the folder, or "" if there were none."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    aside = home / f"{why}-{stamp}"
    moved = False
    for name in names:
        aside.mkdir(mode=0o700, exist_ok=True)
        os.rename(home / name, aside / name)
        moved = True
    sync_folder(home)
    return str(aside) if moved else ""


def begin_anew(settings: Settings) -> str:
    """Move aside the files of a lost database; returns their folder. The caller holds the service lock.

    Raises Conflict if the database exists. Data of the workspaces' datastores stays.
    """
    home = settings.home
    if settings.database_url or (home / DATABASE_FILE).exists():
        database = open_database(settings.store_url)
        try:
            is_there = inspect(database.engine).has_table(schema_version.name)
        finally:
            database.close()
        if is_there:
            raise Conflict(f"The home {str(home)!r} has its database.", hint="Start it without --begin-anew.")
    parts = ("blobs", "logs", "attempts", "services", "interactive")
    return move_aside(home, (part for part in parts if (home / part).exists()), "without-database")


class _Restore:
    def __init__(
        self, folder: BackupFolder, manifest: Manifest, home: Path, report: ReportProgress, leaves_out_damaged: bool
    ) -> None:
        self._folder, self._manifest, self._home, self._report = folder, manifest, home, report
        self._leaves_out_damaged = leaves_out_damaged
        self.left_out: list[str] = []
        self._source, self._target = folder.blobs, FileBlobStore(home / "blobs")

    def fill(self) -> None:
        self._fill_blobs()
        folders: set[Path] = set()
        for done, file in enumerate(self._folder.kept_files(self._manifest)):
            if done % FILES_AT_ONCE == 0:
                self._report("files", done, self._manifest.files.count)
            if self._put(file):
                folders.add((self._home / file.path).parent)
        for folder in folders:
            sync_folder(folder)

    def _fill_blobs(self) -> None:
        names = self._folder.blob_names(self._manifest)
        done = 0
        while some := list(islice(names, FILES_AT_ONCE)):
            self._report("blobs", done, self._manifest.blobs.count)
            there = [(sha256, path) for sha256 in self._target.missing(some) if (path := self._path(sha256))]
            stored = self._target.put_files([path for _, path in there])
            for (sha256, _), (found, _) in zip(there, stored, strict=True):
                if found != sha256:  # stored under its real hash, which nothing uses: gc removes it
                    self._leave_out(f"The blob {sha256}", "altered")
            done += len(some)

    def _put(self, file: KeptFile) -> bool:
        """Write the file to the home; False if it was skipped."""
        target = self._home / _checked_path(file.path)
        path = self._path(file.sha256)
        if path is None:
            return False
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside = target.with_name(f".restoring-{file.sha256}")  # the target's own name may have the maximum length
        beside.unlink(missing_ok=True)
        source = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            new = os.open(beside, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
            try:
                sha256, _ = copy_and_hash(source, new)
                if sha256 != file.sha256:
                    beside.unlink()
                    self._leave_out(file.path, "altered")
                    return False
                os.fchmod(new, file.mode & 0o777)
                os.utime(new, ns=(file.mtime_ns, file.mtime_ns))
                os.fdatasync(new)
            finally:
                os.close(new)
        finally:
            os.close(source)
        os.rename(beside, target)
        return True

    def _path(self, sha256: str) -> Path | None:
        """Path of the blob in the backup; None if it is missing and skipped."""
        found = self._source.local_path(sha256)
        if found is None:
            self._leave_out(f"The blob {sha256}", "missing")
        return found

    def _leave_out(self, what: str, how: str) -> None:
        problem = f"{what} is {how} in backup {self._manifest.name!r}"
        if not self._leaves_out_damaged:
            raise RunyardError(
                f"{problem}.",
                hint="The home is not whole. Restore another backup into it: `runyard restore FOLDER --snapshot NAME`. "
                "Or restore all that is sound: `--leave-out-damaged`.",
            )
        self.left_out.append(f"{problem}, and was left out.")


def _check_database(manifest: Manifest, database_url: str) -> None:
    """A backup of SQLite can be restored to PostgreSQL; a backup of PostgreSQL only to PostgreSQL."""
    if not database_url:
        if manifest.database_kind == POSTGRESQL:
            raise InvalidArgument(
                f"Backup {manifest.name!r} is of a PostgreSQL database.",
                hint="Set RUNYARD_DATABASE_URL to an empty PostgreSQL database.",
            )
        return
    database = open_database(database_url)
    try:
        there = sorted(set(inspect(database.engine).get_table_names()) & set(metadata.tables))
        with database.read() as connection:
            is_used = any(connection.execute(select(metadata.tables[name]).limit(1)).first() for name in there)
    finally:
        database.close()
    if is_used or (there and manifest.database_kind == POSTGRESQL):
        raise Conflict(
            f"The database of RUNYARD_DATABASE_URL is not empty: it has {', '.join(there[:3])} and more.",
            hint="Create an empty one and name it there. A restore never overwrites tables.",
        )


def _load(manifest: Manifest, copy: Path, home: Path, database_url: str) -> None:
    if not database_url:
        _copy_database(copy, home / DATABASE_FILE)
    elif manifest.database_kind == POSTGRESQL:
        load_postgres(database_url, copy)
    else:
        _move_to_postgres(copy, home / "moving.db", database_url)


def _free_lease_and_runs(url: str) -> None:
    """Free the lease and unfinished runs: they name the service that was backed up, which may still run with its own
    database. The processes of those runs are gone here, so the service of this home ends the runs."""
    database = open_database(url)
    try:
        free_lease(database)
        if any(column["name"] == "launched_from" for column in inspect(database.engine).get_columns(runs.name)):
            with database.unchecked_write() as connection:
                connection.execute(update(runs).where(runs.c.finished.is_(False)).values(launched_from=None))
    finally:
        database.close()


def _move_to_postgres(copy: Path, scratch: Path, database_url: str) -> None:
    """Copy the rows from a temporary copy, whose schema is upgraded first."""
    _copy_database(copy, scratch)
    source, target = open_stores(f"sqlite:///{scratch}").database, open_stores(database_url).database
    try:
        copy_rows(source, target)
    finally:
        source.close()
        target.close()
    for left in scratch.parent.glob(f"{scratch.name}*"):
        left.unlink()


def _begin(home: Path, what: str, replace: bool) -> str:
    """Mark the home as being restored from `what`, and move everything else aside; returns that folder. Files of an
    interrupted restore of the same backup stay, to be completed."""
    marker = home / RESTORING
    cut = marker.read_text() if marker.exists() else None
    if cut == what:
        return ""
    held = sorted(name for name in os.listdir(home) if not _is_created_by_start(name) and name != RESTORING)
    if cut is not None:
        held = [name for name in held if not name.startswith(f"{_ASIDE}-")]
    if held and not replace and cut is None:
        raise Conflict(
            f"The home {str(home)!r} is not empty: it has {', '.join(held[:4])}{' ...' if len(held) > 4 else ''}.",
            hint="Set RUNYARD_HOME to a new folder, or give --replace, which moves what is there aside.",
        )
    try:
        marker.write_text(_MOVING)
    except OSError:
        if cut is None:  # the home is unchanged
            marker.unlink(missing_ok=True)
        raise
    moved = move_aside(home, iter(held), _ASIDE)
    marker.write_text(what)
    return moved


def _is_created_by_start(name: str) -> bool:
    return name in _CREATED_BY_START or name.startswith(_PARTIAL_START_ERROR)


def _copy_database(source: Path, target: Path) -> None:
    """Copy the database file. Journal files of a former database are deleted first: SQLite would apply them."""
    for name in ("-wal", "-shm", "-journal"):
        target.with_name(target.name + name).unlink(missing_ok=True)
    beside = target.with_name(f"{target.name}.restoring")
    beside.unlink(missing_ok=True)
    with source.open("rb") as opened:
        new = os.open(beside, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            copy_and_hash(opened.fileno(), new)
            os.fsync(new)
        finally:
            os.close(new)
    os.rename(beside, target)


def _checked_path(path: str) -> str:
    if path.startswith("/") or "\0" in path or {"", ".", ".."} & set(path.split("/")):
        raise RunyardError(f"The backup lists a file {path!r}, which would lie outside of the home.")
    return path
