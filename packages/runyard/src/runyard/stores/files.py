from collections.abc import Sequence
from dataclasses import astuple

from sqlalchemy import bindparam, func, select

from runyard.errors import NotFound
from runyard.model.files import FileEntry, Snapshot
from runyard.model.runs import RunId
from runyard.stores.blob_references import named_blobs
from runyard.stores.database import Database
from runyard.stores.keys import index_key
from runyard.stores.run_rows import run_key
from runyard.stores.schema import run_files, snapshots
from runyard.stores.upserts import upsert

_ENTRY_NAMES = ("path", "sha256", "size", "mode")
_ENTRY = run_files.c[_ENTRY_NAMES]
_SNAPSHOT = select(snapshots).where(snapshots.c.id == bindparam("snapshot_id"))


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
        entries = [astuple(entry) for entry in snapshot.entries]
        row = {"id": snapshot.id, "created_at": snapshot.created_at, "entries": entries}
        with self._database.read() as connection:
            if connection.execute(_SNAPSHOT, {"snapshot_id": snapshot.id}).first() is not None:
                return
        with self._database.write() as connection:
            connection.execute(self._database.insert(snapshots).values(row).on_conflict_do_nothing())

    def get_snapshot(self, snapshot_id: str) -> Snapshot:
        with self._database.read() as connection:
            row = connection.execute(_SNAPSHOT, {"snapshot_id": snapshot_id}).first()
        if row is None:
            raise NotFound(f"There is no snapshot {snapshot_id!r}.", hint="Submit the folder again to make it.")
        return Snapshot(row.id, tuple(FileEntry(*entry) for entry in row.entries), row.created_at)

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
