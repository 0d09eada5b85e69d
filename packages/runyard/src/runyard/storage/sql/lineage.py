from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from sqlalchemy import Connection, bindparam, select

from runyard.core.records.lineage import DatasetUse, Direction
from runyard.core.records.runs import RunId
from runyard.storage.sql.columns import AnySelect
from runyard.storage.sql.database import Database
from runyard.storage.sql.prepared import PreparedStatement
from runyard.storage.sql.run_rows import run_key
from runyard.storage.sql.schema import dataset_uses, runs

_OWN = tuple(field.name for field in fields(DatasetUse) if field.name != "run_id")


def _uses() -> AnySelect:
    columns = (dataset_uses.c[name] for name in _OWN)
    return select(runs.c.id, *columns).join_from(dataset_uses, runs).order_by(dataset_uses.c.key)


# Built once, because every page of a run uses it.
_OF_RUN = PreparedStatement(_uses().where(runs.c.id == bindparam("run_id")))
_OF_DATASET = _uses().where(dataset_uses.c.dataset_id == bindparam("dataset"))


class SqlLineageStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def record(self, uses: Sequence[DatasetUse]) -> None:
        if not uses:
            return
        try:
            with self._database.write() as connection:
                self._record(connection, uses)
        finally:
            self._database.recent_runs.forget(*{use.run_id for use in uses})

    def _record(self, connection: Connection, uses: Sequence[DatasetUse]) -> None:
        statement = self._database.insert(dataset_uses).on_conflict_do_nothing()
        for use in uses:
            run = run_key(connection, use.run_id, lock=True)
            if use.name or not _has(connection, run, use):
                row = {name: getattr(use, name) for name in _OWN} | {"direction": use.direction.value}
                connection.execute(statement.values(row | {"run": run}))

    def of_run(self, run_id: RunId) -> Sequence[DatasetUse]:
        known = self._database.recent_runs.get(run_id)
        if known is not None and known.has_no_uses:
            return ()
        with self._database.read() as connection:
            return [_to_use(row) for row in _OF_RUN.rows(connection, {"run_id": run_id})]

    def of_dataset(self, dataset_id: str) -> Sequence[DatasetUse]:
        with self._database.read() as connection:
            return [_to_use(row) for row in connection.execute(_OF_DATASET, {"dataset": dataset_id})]


def _has(connection: Connection, run: int, use: DatasetUse) -> bool:
    same = (dataset_uses.c.direction == use.direction.value, dataset_uses.c.dataset_id == use.dataset_id)
    return connection.execute(select(dataset_uses.c.key).where(dataset_uses.c.run == run, *same)).first() is not None


def _to_use(row: Sequence[Any]) -> DatasetUse:
    run_id, direction, *rest = row
    return DatasetUse(RunId(run_id), Direction(direction), *rest)
