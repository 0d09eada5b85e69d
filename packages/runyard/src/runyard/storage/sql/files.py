import re
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, func, select, type_coerce
from sqlalchemy.types import Text

from runyard.core.errors import NotFound
from runyard.core.records.files import FileEntry, Snapshot
from runyard.core.records.runs import RunId
from runyard.storage.sql.columns import index_key
from runyard.storage.sql.database import Database, upsert
from runyard.storage.sql.prepared import PreparedStatement
from runyard.storage.sql.run_rows import run_key
from runyard.storage.sql.schema import assets, run_files, runs, snapshots

_ENTRY_NAMES = ("path", "sha256", "size", "mode")
_ENTRY = run_files.c[_ENTRY_NAMES]
_SNAPSHOT = PreparedStatement(
    select(*snapshots.c["id", "entries", "created_at"]).where(snapshots.c.id == bindparam("snapshot_id"))
)
_HAS_SNAPSHOT = PreparedStatement(select(snapshots.c.id).where(snapshots.c.id == bindparam("snapshot_id")))


class SqlFileStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, run_id: RunId, entries: Sequence[FileEntry]) -> None:
        with self._database.write() as connection:
            run = run_key(connection, run_id, lock=True)
            if entries:
                put = upsert(self._database.insert, run_files, ("run", "path_key"), _ENTRY_NAMES)
                connection.execute(put, [_file_row(run, entry) for entry in entries])

    def find(self, run_id: RunId, path: str) -> FileEntry | None:
        with self._database.read() as connection:
            of_run = run_files.c.run == run_key(connection, run_id)
            row = connection.execute(select(*_ENTRY).where(of_run, run_files.c.path_key == index_key(path))).first()
        return None if row is None else FileEntry(*row)

    def list(self, run_id: RunId, prefix: str = "") -> Sequence[FileEntry]:
        with self._database.read() as connection:
            query = select(*_ENTRY).where(run_files.c.run == run_key(connection, run_id))
            if prefix:
                query = query.where(func.substr(run_files.c.path, 1, len(prefix)) == prefix)
            found = [FileEntry(*row) for row in connection.execute(query)]
        return sorted(found, key=lambda entry: entry.path)

    def put_snapshot(self, snapshot: Snapshot) -> None:
        with self._database.read() as connection:
            if _HAS_SNAPSHOT.first(connection, {"snapshot_id": snapshot.id}) is not None:
                return
        entries = [astuple(entry) for entry in snapshot.entries]
        row = {"id": snapshot.id, "created_at": snapshot.created_at, "entries": entries}
        with self._database.write() as connection:
            connection.execute(self._database.insert(snapshots).values(row).on_conflict_do_nothing())

    def get_snapshot(self, snapshot_id: str) -> Snapshot:
        with self._database.read() as connection:
            row = _SNAPSHOT.first(connection, {"snapshot_id": snapshot_id})
        if row is None:
            raise NotFound(f"There is no snapshot {snapshot_id!r}.", hint="Submit the folder again to make it.")
        found_id, entries, created_at = row
        return Snapshot(found_id, tuple(FileEntry(*entry) for entry in entries), created_at)

    def used_blobs(self) -> set[str]:
        with self._database.read() as connection:
            return named_blobs(connection)


def _file_row(run: int, entry: FileEntry) -> dict[str, str | int]:
    return {
        "run": run,
        "path_key": index_key(entry.path),
        "path": entry.path,
        "sha256": entry.sha256,
        "size": entry.size,
        "mode": entry.mode,
    }


_SHA256 = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_ENTRY_FIELDS = 4


@dataclass(frozen=True)
class BlobReference:
    """Reference of a run, a snapshot or an asset to a blob. `size` is None if the row does not have it."""

    sha256: str
    size: int | None
    owner: str
    path: str


def named_blobs(connection: Connection) -> set[str]:
    """Every blob that may be in use. Also contains other hashes in asset bodies."""
    used = set(connection.execute(select(run_files.c.sha256).distinct()).scalars())
    for column in (snapshots.c.entries, assets.c.body):
        for text in connection.execute(select(type_coerce(column, Text))).scalars():
            used.update(_SHA256.findall(text))
    return used


def blob_references(connection: Connection) -> Iterator[BlobReference]:
    """Every file that needs its blob. Unlike `named_blobs`, only real blobs."""
    of_runs = select(runs.c.id, *run_files.c["path", "sha256", "size"]).join_from(runs, run_files)
    for run_id, path, sha256, size in connection.execute(of_runs):
        yield BlobReference(sha256, size, f"run {run_id}", path)
    for snapshot_id, entries in connection.execute(select(snapshots.c.id, snapshots.c.entries)):
        for path, sha256, size, *_ in entries:
            yield BlobReference(sha256, size, f"snapshot {snapshot_id}", path)
    for row in connection.execute(select(*assets.c["workspace", "kind", "name", "version", "body"])):
        owner = f"{row.kind[:-1]} {row.name}:{row.version} of workspace {row.workspace}"
        body = row.body
        for path, sha256, size in _entries_in(body):
            yield BlobReference(sha256, size, owner, path)
        pin = body.get("pin")
        if isinstance(pin, dict) and _SHA256.fullmatch(str(pin.get("manifest"))):
            yield BlobReference(pin["manifest"], None, owner, "the list of its files")


def _entries_in(value: Any) -> Iterator[tuple[str, str, int]]:
    """Entries of the form [path, sha256, size, mode], at any depth."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from _entries_in(inner)
    elif isinstance(value, list):
        if _is_entry(value):
            yield value[0], value[1], value[2]
        else:
            for inner in value:
                yield from _entries_in(inner)


def _is_entry(value: list[Any]) -> bool:
    if len(value) != _ENTRY_FIELDS or not isinstance(value[0], str) or not isinstance(value[1], str):
        return False
    return isinstance(value[2], int) and _SHA256.fullmatch(value[1]) is not None
