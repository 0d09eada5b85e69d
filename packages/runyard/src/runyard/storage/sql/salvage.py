"""Reads what is left of a damaged database: rows on damaged pages are skipped and named.

`rebuild_sqlite` makes a new database of the readable rows.
"""

import json
import logging
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from sqlalchemy import Connection, Table, func, select
from sqlalchemy.exc import DatabaseError

from runyard.core.durable_files import fsync_file
from runyard.storage.sql.columns import JsonText, label_digests
from runyard.storage.sql.database import open_database
from runyard.storage.sql.migration import migrate
from runyard.storage.sql.schema import metadata, metrics, run_details, run_events, runs

_Row = TypeVar("_Row")
_SIGNS = ("malformed", "not a database", "invalid page", "corrupt", "could not read block", "could not open file")
_log = logging.getLogger(__name__)


def is_damage(error: Exception) -> bool:
    """True if the error means damaged data: a bad page, or text that cannot be decoded."""
    if isinstance(error, DatabaseError):
        return any(sign in str(error.orig) for sign in _SIGNS)
    return isinstance(error, (ValueError, KeyError, TypeError))


def readable_between(
    low: int, high: int, read: Callable[[int, int], Sequence[_Row]], *, limit: int | None = None
) -> tuple[list[_Row], list[int]]:
    """Rows with keys low..high, highest first, and the keys that cannot be read.

    `read` returns the rows of a range. A range that fails is halved down to single keys. Stops at `limit` rows.
    """
    rows: list[_Row] = []
    bad: list[int] = []
    waiting = [(low, high)]
    while waiting and (limit is None or len(rows) < limit):
        start, end = waiting.pop()
        if start > end:
            continue
        try:
            rows += read(start, end)
        except (DatabaseError, ValueError, KeyError, TypeError) as error:
            if not is_damage(error):
                raise
            if start == end:
                bad.append(start)
                continue
            middle = (start + end) // 2
            waiting += [(start, middle), (middle + 1, end)]
    return rows[:limit] if limit is not None else rows, bad


def last_run_key(connection: Connection) -> int:
    """Highest key of a run in any readable table."""
    found = 0
    for column in (runs.c.sequence, run_details.c.run, run_events.c.run, metrics.c.run):
        try:
            found = max(found, connection.execute(select(func.max(column))).scalar() or 0)
        except DatabaseError as error:
            if not is_damage(error):
                raise
    return found


def warn_damaged_runs(keys: Sequence[int]) -> None:
    if keys:
        _log.error(
            "%d runs cannot be read from the database and were left out of a listing (rows %s). Run: runyard check",
            len(keys),
            ", ".join(map(str, sorted(keys)[:20])),
        )


_NAMED = 1000
_SqliteRow = tuple[object, ...]
_REGENERATED = frozenset({"run_labels", "asset_names"})


def rebuild_sqlite(source: Path, target: Path) -> list[str]:
    """Copy every readable row to a new database; returns sentences on what is lost. Nobody may write meanwhile."""
    database = open_database(f"sqlite:///{target}")
    migrate(database)
    database.close()
    with (
        closing(sqlite3.connect(f"file:{quote(str(source))}?mode=rw", uri=True)) as old,
        closing(sqlite3.connect(target)) as new,
    ):
        old.text_factory = lambda data: data.decode("utf-8", "replace")
        rebuilt = _Rebuild(old, new)
        rebuilt.copy_all()
        new.commit()
        new.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    fsync_file(target)
    return rebuilt.lost


class _Rebuild:
    def __init__(self, old: sqlite3.Connection, new: sqlite3.Connection) -> None:
        self._old, self._new = old, new
        self.lost: list[str] = []
        self._last_run = 0

    def copy_all(self) -> None:
        self._new.execute("PRAGMA foreign_keys=OFF")
        for table in metadata.sorted_tables:
            if table.name in _REGENERATED:
                continue
            if table.dialect_options["sqlite"]["with_rowid"]:
                self._copy_by_rowid(table)
            else:
                self._copy_by_run(table)
        self._make_labels()
        self._make_asset_names()
        self._drop_orphans()

    def _copy_by_rowid(self, table: Table) -> None:
        last = self._last_rowid(table)
        if table.name == "runs":
            self._last_run = last
        lost: list[int] = []
        waiting = [(1, last)]
        while waiting:
            low, high = waiting.pop()
            try:
                self._insert(table, self._read(table, "rowid BETWEEN ? AND ?", (low, high)))
            except (sqlite3.DatabaseError, ValueError):
                if low == high:
                    lost.append(low)
                else:
                    middle = (low + high) // 2
                    waiting += [(middle + 1, high), (low, middle)]
        self._note_lost(table, lost)

    def _copy_by_run(self, table: Table) -> None:
        column = next(iter(table.foreign_keys)).parent.name
        lost = []
        for (run,) in self._new.execute("SELECT sequence FROM runs").fetchall():
            try:
                self._insert(table, self._read(table, f"{column} = ?", (run,)))
            except (sqlite3.DatabaseError, ValueError):
                lost.append(self._run_name(run))
        if lost:
            self.lost.append(f"{table.name} of {len(lost)} runs: {_some(lost)}")

    def _read(self, table: Table, condition: str, values: Sequence[int]) -> list[_SqliteRow]:
        columns = ", ".join(f'"{column.name}"' for column in table.columns)
        rows: list[_SqliteRow] = self._old.execute(
            f'SELECT {columns} FROM "{table.name}" WHERE {condition}', values
        ).fetchall()
        texts = [place for place, column in enumerate(table.columns) if isinstance(column.type, JsonText)]
        for row in rows:
            for place in texts:
                if row[place] is not None:
                    json.loads(str(row[place]))
        return rows

    def _insert(self, table: Table, rows: Sequence[_SqliteRow]) -> None:
        columns = ", ".join(f'"{column.name}"' for column in table.columns)
        marks = ", ".join("?" * len(table.columns))
        self._new.executemany(f'INSERT OR IGNORE INTO "{table.name}" ({columns}) VALUES ({marks})', rows)

    def _last_rowid(self, table: Table) -> int:
        """Highest rowid of the table or any of its indexes, since the last page of the table may be damaged."""
        found = self._last_run if table.foreign_keys else 0
        sources = [f'"{table.name}"']
        sources += [f'"{table.name}" INDEXED BY "{row[1]}"' for row in self._indexes(table)]
        for source in sources:
            try:
                row = self._old.execute(f"SELECT max(rowid) FROM {source}").fetchone()
            except sqlite3.DatabaseError:
                continue
            found = max(found, row[0] or 0)
        return found

    def _indexes(self, table: Table) -> list[_SqliteRow]:
        # Without partial indexes, which only answer queries with their own condition.
        rows: list[_SqliteRow] = self._old.execute(f'PRAGMA index_list("{table.name}")').fetchall()
        return [row for row in rows if not row[4]]

    def _note_lost(self, table: Table, lost: Sequence[int]) -> None:
        if not lost:
            return
        there = set(lost) & self._known_rowids(table) if self._indexes(table) else set(lost)
        names = [self._run_name(key) if table.name in ("runs", "run_details") else str(key) for key in sorted(there)]
        if names:
            self.lost.append(f"{len(names)} rows of {table.name}: {_some(names)}")

    def _known_rowids(self, table: Table) -> set[int]:
        """Rows that should exist according to the readable indexes."""
        found: set[int] = set()
        for row in self._indexes(table):
            try:
                found.update(
                    key for (key,) in self._old.execute(f'SELECT rowid FROM "{table.name}" INDEXED BY "{row[1]}"')
                )
            except sqlite3.DatabaseError:
                continue
        return found

    def _run_name(self, sequence: int) -> str:
        try:
            query = "SELECT id FROM runs INDEXED BY sqlite_autoindex_runs_1 WHERE id > '' AND rowid = ?"
            row = self._old.execute(query, (sequence,)).fetchone()
        except sqlite3.DatabaseError:
            row = None
        return str(row[0]) if row else f"row {sequence}"

    def _make_labels(self) -> None:
        for run, workspace, tags, properties in self._new.execute(
            "SELECT sequence, workspace, tags, properties FROM runs"
        ).fetchall():
            labels = label_digests(workspace, json.loads(tags), json.loads(properties))
            self._new.executemany("INSERT INTO run_labels (label, run) VALUES (?, ?)", [(one, run) for one in labels])

    def _make_asset_names(self) -> None:
        """Version numbers of deleted assets may be reused if the old table cannot be read."""
        try:
            table = metadata.tables["asset_names"]
            self._insert(table, self._read(table, "1", ()))
        except sqlite3.DatabaseError:
            self.lost.append("asset_names: made again from the versions there are")
        self._new.execute(
            "INSERT INTO asset_names (workspace, kind, name, last_version) "
            "SELECT workspace, kind, name, max(version) FROM assets WHERE 1 GROUP BY workspace, kind, name "
            "ON CONFLICT DO UPDATE SET last_version = max(last_version, excluded.last_version)"
        )

    def _drop_orphans(self) -> None:
        """Delete rows whose run or metric is lost; the damaged file still has them."""
        for table, row, parent in self._orphans():
            self._new.execute(f'DELETE FROM "{table}" WHERE {row}')
            self.lost.append(f"rows of {table} without their {parent}")

    def _orphans(self) -> Iterator[tuple[str, str, str]]:
        for table in metadata.sorted_tables:
            for key in table.foreign_keys:
                parent = key.column.table.name
                condition = f'"{key.parent.name}" NOT IN (SELECT "{key.column.name}" FROM "{parent}")'
                if self._new.execute(f'SELECT 1 FROM "{table.name}" WHERE {condition} LIMIT 1').fetchone():
                    yield table.name, condition, parent


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
