"""Makes a backup of a home; its service may run meanwhile."""

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from sqlalchemy import Connection, text

from runyard.core.disk import disk_errors_explained
from runyard.core.errors import BlobDamaged, InvalidArgument, NotFound, RunyardError, StorageFull
from runyard.core.version import VERSION
from runyard.storage.backup.folder import (
    FORMAT,
    POSTGRESQL,
    SQLITE,
    BackupFolder,
    KeptFile,
    Manifest,
    as_line,
    describe_part,
    write_list,
)
from runyard.storage.blobs.store import FileBlobStore
from runyard.storage.home import require_restored
from runyard.storage.sql.database import open_database
from runyard.storage.sql.database_copy import copy_sqlite, dump_postgres, sqlite_faults
from runyard.storage.sql.files import blob_references, named_blobs
from runyard.storage.sql.schema import schema_version

FILES_AT_ONCE = 256
KEYS = ("token", "secrets.key", "port")
DATABASE_FILE = "runyard.db"
_TRIES = 3
_NAMED = 3
ReportProgress = Callable[[str, int, int], None]
"""Callback(step, done, total); `total` is 0 if it is unknown."""


@dataclass(frozen=True)
class BackupSummary:
    """Content of a new backup, and how much of it was not in the folder before."""

    name: str
    folder: str
    database_bytes: int
    blobs: int
    new_blobs: int
    new_blob_bytes: int
    files: int
    new_files: int
    removed_snapshots: int
    notes: tuple[str, ...]


@dataclass(frozen=True)
class BackupSource:
    """The home to back up. `has_data_here` is False if the workspaces' datastores are elsewhere."""

    home: Path
    database_url: str
    """Empty for SQLite in the home."""
    has_data_here: bool = True


def take_backup(
    source: BackupSource,
    folder: BackupFolder,
    report: ReportProgress,
    *,
    with_data: bool = True,
    keep: int | None = None,
) -> BackupSummary:
    """Add a snapshot of the home to the folder. A killed backup leaves the former ones unchanged.

    The database is copied first, then everything that this copy refers to; garbage collection is blocked meanwhile.
    """
    _check_place(source.home, folder.root)
    require_restored(source.home)
    _require_database(source)
    folder.prepare()
    try:
        with folder.locked(), disk_errors_explained(folder.root):
            return _Backup(source, folder, report).take(with_data and source.has_data_here, keep)
    except StorageFull as full:
        raise StorageFull(
            f"The disk of the backups in {str(folder.root)!r} is full.",
            hint="The former backups are as they were. Free space on that disk, then try again.",
        ) from full


class _Backup:
    def __init__(self, source: BackupSource, folder: BackupFolder, report: ReportProgress) -> None:
        self._source, self._folder, self._report = source, folder, report
        self._stored, self._target = FileBlobStore(source.home / "blobs"), folder.blobs
        self._notes: list[str] = []
        self._new_blobs = self._new_bytes = self._new_files = 0

    def take(self, with_data: bool, keep: int | None) -> BackupSummary:
        at = datetime.now(UTC)
        name = _free_name(self._folder, at)
        unfinished = self._folder.begin(name)
        kind = POSTGRESQL if self._source.database_url else SQLITE
        database = unfinished / ("database.dump" if kind == POSTGRESQL else "database.sqlite")
        with self._stored.all_kept():
            self._report("database", 0, 0)
            with self._copied(database) as connection:
                schema = str(connection.execute(schema_version.select()).scalar())
                named = named_blobs(connection)
                names = self._copy_blobs(sorted(named), connection)
        write_list(unfinished / "blobs.txt", names)
        files = self._copy_files(with_data)
        write_list(unfinished / "files.jsonl", map(as_line, files))
        self._folder.finish(
            unfinished,
            manifest := Manifest(
                format=FORMAT,
                name=name,
                taken_at=at.isoformat(timespec="seconds").replace("+00:00", "Z"),
                runyard=VERSION,
                database_kind=kind,
                schema=schema,
                has_data=with_data,
                database=describe_part(database),
                files=describe_part(unfinished / "files.jsonl", count=len(files), bytes=sum(f.size for f in files)),
                blobs=describe_part(unfinished / "blobs.txt", count=len(names)),
                notes=tuple(self._notes),
            ),
        )
        return BackupSummary(
            name=name,
            folder=str(self._folder.root),
            database_bytes=manifest.database.size,
            blobs=len(names),
            new_blobs=self._new_blobs,
            new_blob_bytes=self._new_bytes,
            files=len(files),
            new_files=self._new_files,
            removed_snapshots=self._folder.remove_older(keep) if keep else 0,
            notes=manifest.notes,
        )

    @contextmanager
    def _copied(self, target: Path) -> Iterator[Connection]:
        """Copy the database; yields a connection that reads the copied state."""
        if self._source.database_url:
            with _exported(self._source.database_url) as (connection, snapshot):
                dump_postgres(self._source.database_url, target, snapshot=snapshot)
                yield connection
            return
        copy_sqlite(self._source.home / DATABASE_FILE, target)
        if faults := sqlite_faults(target):
            raise RunyardError(
                f"The database of {self._source.home} is damaged ({faults[0]}), so no backup was made of it.",
                hint="The former backups are as they were. Run: runyard check --repair",
            )
        from sqlalchemy import create_engine

        engine = create_engine(f"sqlite:///{target}")
        try:
            with engine.connect() as connection:
                yield connection
        finally:
            engine.dispose()

    def _copy_blobs(self, names: Sequence[str], connection: Connection) -> list[str]:
        """Copy blobs and return those that are in the backup. The notes list missing and altered ones."""
        lost: set[str] = set()
        kept: list[str] = []
        for start in range(0, len(names), FILES_AT_ONCE):
            self._report("blobs", start, len(names))
            some = names[start : start + FILES_AT_ONCE]
            absent = {*self._target.missing(some), *self._cut_short(some)}
            wanted = [(name, self._stored.local_path(name)) for name in some if name in absent]
            paths = {name: path for name, path in wanted if path is not None}
            stored = dict(zip(paths, self._target.put_files(list(paths.values())), strict=True))
            bad = {name for name, (sha256, _) in stored.items() if sha256 != name}
            lost |= {name for name, path in wanted if path is None} | bad
            self._new_blobs += len(stored) - len(bad)
            self._new_bytes += sum(size for name, (_, size) in stored.items() if name not in bad)
            kept += [name for name in some if name not in lost]
        self._report("blobs", len(names), len(names))
        if lost:
            self._note_lost(lost, connection)
        return kept

    def _cut_short(self, names: Sequence[str]) -> Iterator[str]:
        """Remove blobs of the backup whose size differs from the good blob of the home, and yield them to be copied
        again."""
        for name in names:
            here, there = self._stored.local_path(name), self._target.local_path(name)
            if here is not None and there is not None and here.stat().st_size != there.stat().st_size:
                with suppress(BlobDamaged):  # the home's blob is the damaged one
                    self._stored.verified_path(name, always=True)
                    there.unlink()
                    yield name

    def _note_lost(self, lost: set[str], connection: Connection) -> None:
        """Add a note for lost blobs that a file needs; other hashes in assets are not blobs."""
        damaged = [f"{ref.path!r} of {ref.owner}" for ref in blob_references(connection) if ref.sha256 in lost]
        if damaged:
            named = ", ".join(damaged[:_NAMED]) + (", ..." if len(damaged) > _NAMED else "")
            self._notes.append(
                f"{len(damaged)} files are missing or damaged in the home, and so not in this backup: {named}. "
                "`runyard check` lists them."
            )

    def _copy_files(self, with_data: bool) -> list[KeptFile]:
        known = self._known_files()
        kept: list[KeptFile] = []
        waiting = _files_of(self._source.home, with_data)
        while some := list(islice(waiting, FILES_AT_ONCE)):
            self._report("files", len(kept), 0)
            same = [file for path, facts in some if (file := _unchanged(known, path, facts)) is not None]
            gone = set(self._target.missing([file.sha256 for file in same]))
            reused = {file.path: file for file in same if file.sha256 not in gone}
            copied = self._copy_together([path for path, _ in some if path not in reused])
            for path, _ in some:
                file = reused.get(path) or copied.get(path) or self._copy_file(path)
                if file is not None:
                    kept.append(file)
        self._report("files", len(kept), len(kept))
        return kept

    def _known_files(self) -> dict[str, KeptFile]:
        """Files of the newest undamaged backup, by path."""
        for name in reversed(self._folder.names()):
            try:
                return {file.path: file for file in self._folder.kept_files(self._folder.manifest(name))}
            except RunyardError as damage:
                self._notes.append(f"The former backup {name!r} is damaged. {damage.problem}")
        return {}

    def _copy_together(self, paths: Sequence[str]) -> dict[str, KeptFile]:
        """Copy files with one sync, which is much faster for many small files. Returns those that did not change
        meanwhile."""
        home = self._source.home
        try:
            before = [(home / path).lstat() for path in paths]
            stored = self._target.put_files([home / path for path in paths])
            after = [(home / path).lstat() for path in paths]
        except (FileNotFoundError, NotFound, InvalidArgument):
            return {}
        copied = {
            path: KeptFile(path, sha256, size, stat.S_IMODE(facts.st_mode), facts.st_mtime_ns)
            for path, facts, later, (sha256, size) in zip(paths, before, after, stored, strict=True)
            if (facts.st_size, facts.st_mtime_ns) == (later.st_size, later.st_mtime_ns)
        }
        self._new_files += len(copied)
        return copied

    def _copy_file(self, path: str) -> KeptFile | None:
        """Copy one file; None if it was removed meanwhile or is not a regular file."""
        file = self._source.home / path
        for tries_left in reversed(range(_TRIES)):
            try:
                facts = file.lstat()
                [(sha256, size)] = self._target.put_files([file])
                after = file.lstat()
            except (FileNotFoundError, NotFound):
                return None
            except InvalidArgument as refusal:
                self._notes.append(refusal.problem)
                return None
            # A log only grows, so the copy is a valid beginning of it.
            if path.startswith("logs/") or (facts.st_size, facts.st_mtime_ns) == (after.st_size, after.st_mtime_ns):
                break
            if not tries_left:
                self._notes.append(f"{path!r} changed while it was copied; the backup may hold a mixture.")
        self._new_files += 1
        return KeptFile(path, sha256, size, stat.S_IMODE(facts.st_mode), facts.st_mtime_ns)


@contextmanager
def _exported(url: str) -> Iterator[tuple[Connection, str]]:
    """Connection to PostgreSQL, and the id of its snapshot for pg_dump."""
    database = open_database(url)
    try:
        with database.engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
            yield connection, str(connection.execute(text("SELECT pg_export_snapshot()")).scalar())
    finally:
        database.close()


def _check_place(home: Path, folder: Path) -> None:
    here, there = home.resolve(), folder.resolve()
    if there.is_relative_to(here) or here.is_relative_to(there):
        raise InvalidArgument(
            f"The folder {str(folder)!r} and the home {str(home)!r} lie within one another.",
            hint="Name a folder elsewhere, best on another disk.",
        )


def _require_database(source: BackupSource) -> None:
    if not source.database_url and not (source.home / DATABASE_FILE).is_file():
        raise NotFound(
            f"The home {str(source.home)!r} has no database.",
            hint="Set RUNYARD_HOME to the service's home, and RUNYARD_DATABASE_URL where it uses PostgreSQL.",
        )


def _free_name(folder: BackupFolder, at: datetime) -> str:
    """Name from the time, but later than all existing names, so that the newest is the last even if the clock jumps."""
    plain = at.strftime("%Y%m%dT%H%M%SZ")
    last = max(folder.names(), default="")
    if plain > last:
        return plain
    stem, _, number = last.partition("-")
    return f"{stem}-{int(number or 0) + 1:04d}"


def _files_of(home: Path, with_data: bool) -> Iterator[tuple[str, os.stat_result]]:
    for name in KEYS:
        if (home / name).is_file():
            yield name, (home / name).stat()
    services = home / "services"
    for folder in sorted(services.iterdir()) if services.is_dir() else ():
        if (folder / "spec.json").is_file():
            yield f"services/{folder.name}/spec.json", (folder / "spec.json").stat()
    for part in ("logs", "datastores") if with_data else ("logs",):
        yield from _files_below(home, part)


def _files_below(home: Path, part: str) -> Iterator[tuple[str, os.stat_result]]:
    """Files below a folder; does not follow links, skips files that vanish meanwhile."""
    try:
        entries = sorted(os.scandir(home / part), key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        path = f"{part}/{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            yield from _files_below(home, path)
        else:
            with suppress(FileNotFoundError):
                yield path, entry.stat(follow_symlinks=False)


def _unchanged(known: dict[str, KeptFile], path: str, facts: os.stat_result) -> KeptFile | None:
    file = known.get(path)
    if file is None or (file.size, file.mtime_ns) != (facts.st_size, facts.st_mtime_ns):
        return None
    return file if file.mode == stat.S_IMODE(facts.st_mode) else None
