"""Moves all rows of a run from one database to another, SQLite or PostgreSQL."""

import base64
import binascii
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Double,
    Integer,
    LargeBinary,
    RowMapping,
    Table,
    case,
    insert,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError

from runyard.core.definitions.fields import is_whole
from runyard.core.errors import AlreadyExists, Conflict, InvalidArgument
from runyard.core.records.assets import Asset
from runyard.core.records.metrics import MetricKind
from runyard.core.records.runs import RunId, RunStatus
from runyard.storage.sql.columns import JsonText, StorableText, UtcTime, index_key, label_digests
from runyard.storage.sql.database import Database
from runyard.storage.sql.metric_points import Chunk, unpack_ranks, unpack_steps, unpack_times, unpack_values
from runyard.storage.sql.run_rows import ensure_experiment, next_number, run_key
from runyard.storage.sql.schema import (
    asset_names,
    assets,
    dataset_uses,
    experiments,
    journals,
    metric_chunks,
    metrics,
    parts,
    run_details,
    run_events,
    run_files,
    run_labels,
    runs,
    snapshots,
    trials,
)

_OF_RUN = frozenset({"sequence", "workspace", "experiment_key", "finished"})
_OF_METRIC = frozenset({"key", "run", "name_key", "workspace", "experiment_key"})
_OF_CHUNK = frozenset({"metric"})
# Name of a run's rows in JSON, their table, its column for the run, and the columns that the target database sets.
_MANY: Mapping[str, tuple[Table, str, frozenset[str]]] = {
    "events": (run_events, "run", frozenset({"run", "key"})),
    "journals": (journals, "run", frozenset({"run"})),
    "files": (run_files, "run", frozenset({"run", "path_key"})),
    "dataset_uses": (dataset_uses, "run", frozenset({"run", "key"})),
    "trials": (trials, "sweep", frozenset({"sweep"})),
    "parts": (parts, "run", frozenset({"run"})),
}
_DETAILS = frozenset({"run"})
_ENDED = frozenset(status.value for status in RunStatus if status.is_terminal)
_ROWS_AT_ONCE = 200
Rows = dict[str, Any]


class SqlRunTransfer:
    def __init__(self, database: Database) -> None:
        self._database = database

    def rows(self, run_id: RunId) -> Rows:
        """All rows of a run except its metrics. Raises NotFound."""
        with self._database.read() as connection:
            key = run_key(connection, run_id)
            run = connection.execute(select(runs).where(runs.c.sequence == key)).mappings().one()
            details = connection.execute(select(run_details).where(run_details.c.run == key)).mappings().one()
            found: Rows = {
                "run": row_to_json(runs, run, _OF_RUN),
                "details": row_to_json(run_details, details, _DETAILS),
            }
            for name, (table, column, leave_out) in _MANY.items():
                query = select(table).where(table.c[column] == key).order_by(*table.primary_key.columns)
                found[name] = [row_to_json(table, row, leave_out) for row in connection.execute(query).mappings()]
            of_run = select(snapshots).where(snapshots.c.id == run["snapshot_id"])
            snapshot = connection.execute(of_run).mappings().first()
            found["snapshot"] = None if snapshot is None else row_to_json(snapshots, snapshot, frozenset())
        return found

    def metric_lines(self, run_id: RunId) -> Iterator[bytes]:
        """Each metric and then its points, one JSON line each."""
        with self._database.read() as connection:
            key = run_key(connection, run_id)
            of_run = select(metrics).where(metrics.c.run == key).order_by(metrics.c.key)
            for metric in connection.execute(of_run).mappings().all():
                yield _line({"metric": row_to_json(metrics, metric, _OF_METRIC)})
                chunks = select(metric_chunks).where(metric_chunks.c.metric == metric["key"])
                streamed = connection.execution_options(yield_per=10).execute(chunks.order_by(metric_chunks.c.part))
                for chunk in streamed.mappings():
                    yield _line({"chunk": row_to_json(metric_chunks, chunk, _OF_CHUNK)})

    def insert(self, workspace: str, given: Rows, metric_lines: Iterable[bytes]) -> None:
        """Store an ended run with all its rows, or nothing. It keeps its number in the experiment if that is free.
        Raises AlreadyExists, and InvalidArgument for invalid rows."""
        try:
            self._insert(workspace, checked_rows(given), metric_lines)
        except IntegrityError as error:
            raise InvalidArgument("The archive has rows that contradict one another.") from error

    def _insert(self, workspace: str, checked: Rows, metric_lines: Iterable[bytes]) -> None:
        run = checked["run"]
        with self._database.write() as connection:
            if connection.execute(select(runs.c.sequence).where(runs.c.id == run["id"])).first() is not None:
                raise AlreadyExists(f"There is already a run {run['id']!r}.")
            experiment_key, number = self._numbered(connection, workspace, run["experiment"], run["number"])
            row = run | {"workspace": workspace, "experiment_key": experiment_key, "number": number, "finished": True}
            added = connection.execute(insert(runs), row)
            assert added.inserted_primary_key is not None
            key = added.inserted_primary_key[0]
            connection.execute(insert(run_details), checked["details"] | {"run": key})
            for name, (table, column, _) in _MANY.items():
                _insert_all(connection, table, [row | {column: key} for row in checked[name]])
            labels = label_digests(workspace, run["tags"], run["properties"])
            _insert_all(connection, run_labels, [{"label": label, "run": key} for label in labels])
            if checked["snapshot"] is not None:
                statement = self._database.insert(snapshots).values(checked["snapshot"])
                connection.execute(statement.on_conflict_do_nothing())
            place = {"run": key, "workspace": workspace, "experiment_key": experiment_key}
            _insert_metrics(connection, place, metric_lines)

    def checked(self, given: Any) -> Rows:
        return checked_rows(given)

    def insert_model(self, model: Asset) -> None:
        counter = {"workspace": model.workspace, "kind": model.kind.value, "name": model.name}
        row = {field.name: getattr(model, field.name) for field in fields(Asset)} | {"kind": model.kind.value}
        statement = self._database.insert(asset_names).values(counter | {"last_version": model.version})
        higher = case((asset_names.c.last_version > model.version, asset_names.c.last_version), else_=model.version)
        try:
            with self._database.write() as connection:
                connection.execute(insert(assets).values(row))
                connection.execute(
                    statement.on_conflict_do_update(index_elements=list(counter), set_={"last_version": higher})
                )
        except IntegrityError as error:
            raise Conflict(f"The model {model.name}:{model.version}, or its id, is taken.") from error

    def _numbered(self, connection: Connection, workspace: str, experiment: str, wanted: int) -> tuple[int, int]:
        ensure_experiment(self._database, connection, workspace, experiment)
        named = (experiments.c.workspace == workspace, experiments.c.name == experiment)
        last = experiments.c["key", "last_number"]
        key, last_number = connection.execute(select(*last).where(*named).with_for_update()).one()
        taken = select(runs.c.sequence).where(runs.c.experiment_key == key, runs.c.number == wanted)
        if wanted < 1 or connection.execute(taken).first() is not None:
            return next_number(self._database, connection, workspace, experiment)
        grown = update(experiments).where(experiments.c.key == key)
        connection.execute(grown.values(last_number=max(last_number, wanted)))
        return key, wanted


def checked_rows(given: Any) -> Rows:
    """The rows after a check of every value. Raises InvalidArgument."""
    if not isinstance(given, dict) or given.keys() != {"run", "details", "snapshot", *_MANY}:
        raise InvalidArgument("The archive has a run whose parts are not those of a run.")
    run = row_from_json(runs, given["run"], _OF_RUN)
    if run["status"] not in _ENDED:
        raise InvalidArgument(f"The archive has run {run['id']!r} as {run['status']!r}: only ended runs can be moved.")
    checked: Rows = {"run": run, "details": row_from_json(run_details, given["details"], _DETAILS)}
    for name, (table, _, leave_out) in _MANY.items():
        if not isinstance(given[name], list):
            raise InvalidArgument(f"The archive has no list of {name}.")
        checked[name] = [row_from_json(table, row, leave_out) for row in given[name]]
    for row in checked["files"]:
        row["path_key"] = index_key(row["path"])
    snapshot = given["snapshot"]
    checked["snapshot"] = None if snapshot is None else row_from_json(snapshots, snapshot, frozenset())
    return checked


def _insert_metrics(connection: Connection, place: Mapping[str, Any], lines: Iterable[bytes]) -> None:
    metric: int | None = None
    waiting: list[dict[str, Any]] = []
    for line in lines:
        kind, data = _parsed(line)
        if kind == "metric":
            row = row_from_json(metrics, data, _OF_METRIC)
            _check_kind(row)
            added = connection.execute(insert(metrics), {**row, **place, "name_key": index_key(row["name"])})
            assert added.inserted_primary_key is not None
            metric = added.inserted_primary_key[0]
        elif metric is None:
            raise InvalidArgument("The archive has points without their metric.")
        else:
            chunk = row_from_json(metric_chunks, data, _OF_CHUNK)
            _check_chunk(Chunk(*(chunk[name] for name in ("type", "count", "values", "steps", "at", "ranks"))))
            waiting.append({**chunk, "metric": metric})
            if len(waiting) >= _ROWS_AT_ONCE:
                _insert_all(connection, metric_chunks, waiting)
                waiting = []
    _insert_all(connection, metric_chunks, waiting)


def _parsed(line: bytes) -> tuple[str, Any]:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument("The archive has metrics that are no JSON.") from error
    if not isinstance(data, dict) or len(data) != 1 or data.keys() - {"metric", "chunk"}:
        raise InvalidArgument("The archive has a line of metrics that is neither a metric nor points.")
    [(kind, value)] = data.items()
    return kind, value


def _check_kind(row: Mapping[str, Any]) -> None:
    kinds = {kind.value: kind for kind in MetricKind}
    if row["kind"] not in kinds or row["family"] != kinds[row["kind"]].family.value:
        raise InvalidArgument(f"The archive has the metric {row['name']!r} of a kind that there is not.")


def _check_chunk(chunk: Chunk) -> None:
    try:
        if chunk.type not in ("i", "f", "j"):
            raise ValueError(chunk.type)
        ranks = unpack_ranks([chunk])
        lengths = [len(unpack_values([chunk])[1]), len(unpack_steps([chunk])), len(unpack_times([chunk]))]
        if {*lengths, chunk.count if ranks is None else len(ranks)} != {chunk.count}:
            raise ValueError("lengths")
    except (ValueError, TypeError, RecursionError, OverflowError) as error:
        raise InvalidArgument("The archive has points of a metric that cannot be read.") from error


def _insert_all(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    if rows:
        connection.execute(insert(table), rows)


def _line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_LATEST = 253_402_300_799_000_000  # the year 9999
_INT64 = 2**63
_SHAPES: Mapping[str, type] = {
    "definition": dict,
    "tags": dict,
    "properties": dict,
    "error": dict,
    "exit_facts": dict,
    "facts": dict,
    "stop": dict,
    "warnings": list,
    "nodes": list,
    "entries": list,
}
_TEXTS_ONLY = frozenset({"tags", "properties", "warnings", "nodes"})


def row_to_json(table: Table, row: RowMapping, leave_out: frozenset[str]) -> dict[str, Any]:
    return {column.name: _written(column, row[column.name]) for column in table.columns if column.name not in leave_out}


def row_from_json(table: Table, data: Any, leave_out: frozenset[str]) -> dict[str, Any]:
    """Check a row of foreign JSON. Raises InvalidArgument naming the wrong column. Columns that later schemas added may
    be missing."""
    columns = {column.name: column for column in table.columns if column.name not in leave_out}
    later = {name for name, column in columns.items() if column.nullable or column.server_default is not None}
    if not isinstance(data, dict) or not columns.keys() - later <= data.keys() <= columns.keys():
        raise InvalidArgument(f"The archive has a row for {table.name!r} that does not fit that table.")
    return {name: _read(table, column, data[name]) for name, column in columns.items() if name in data}


def _written(column: Column[Any], value: Any) -> Any:
    if isinstance(value, datetime):
        return (value - _EPOCH) // _MICROSECOND
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _read(table: Table, column: Column[Any], value: Any) -> Any:
    if value is None:
        if column.nullable:
            return None
    elif isinstance(column.type, UtcTime):
        if is_whole(value) and 0 <= value <= _LATEST:
            return _EPOCH + timedelta(microseconds=value)
    elif isinstance(column.type, JsonText):
        if _has_shape(column.name, value):
            return value
    elif isinstance(column.type, LargeBinary):
        if isinstance(value, str):
            try:
                return base64.b64decode(value, validate=True)
            except binascii.Error:
                pass
    elif _is_plain(column, value):
        return value
    raise InvalidArgument(f"The archive has no right value for {column.name!r} of {table.name!r}.")


def _is_plain(column: Column[Any], value: Any) -> bool:
    if isinstance(column.type, StorableText):
        return isinstance(value, str)
    if isinstance(column.type, Boolean):
        return isinstance(value, bool)
    if isinstance(column.type, Double):
        return isinstance(value, float) or is_whole(value)
    if isinstance(column.type, BigInteger):
        return is_whole(value) and -_INT64 <= value < _INT64
    return isinstance(column.type, Integer) and is_whole(value) and -(2**31) <= value < 2**31


def _has_shape(name: str, value: Any) -> bool:
    if name in _SHAPES and not isinstance(value, _SHAPES[name]):
        return False
    texts: Iterable[Any] = value.values() if isinstance(value, dict) else value
    return name not in _TEXTS_ONLY or all(isinstance(text, str) for text in texts)
