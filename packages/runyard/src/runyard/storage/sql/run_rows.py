"""Converts run records to rows of `runs` and `run_details` and back; numbers the runs of experiments."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC
from typing import Any
from uuid import uuid4

import orjson
from sqlalchemy import Connection, Table, bindparam, select, update

from runyard.core.definitions.run import EMPTY_DEFINITION, RunDefinition
from runyard.core.errors import Conflict, InvalidArgument, NotFound
from runyard.core.records.runs import RunId, RunRecord, RunStatus
from runyard.storage.sql.columns import JsonText, StorableText, UtcTime, from_json, json_text, read_time, storable
from runyard.storage.sql.database import Database
from runyard.storage.sql.prepared import PreparedStatement
from runyard.storage.sql.schema import experiments, run_details, runs

DETAILS = ("definition", "environment_lock")
_COLUMNS = tuple(f.name for f in fields(RunRecord) if f.name not in DETAILS)
WHOLE = _COLUMNS + DETAILS
_FIXED = frozenset({"id", "workspace", "experiment", "number", "status", "created_at", "version", "sequence"})
_NO_DETAILS: dict[str, Any] = {"definition": EMPTY_DEFINITION, "environment_lock": ""}
_STATUS = {status.value: status for status in RunStatus}
LISTED = tuple(runs.c[name] for name in _COLUMNS)

_WHOLE_RUNS = select(*LISTED, run_details.c.definition, run_details.c.environment_lock).join_from(runs, run_details)
# Built once: building a statement of thirty columns takes longer than running it.
_ONE = PreparedStatement(_WHOLE_RUNS.where(runs.c.id == bindparam("run_id")))
_ONE_LOCKED = PreparedStatement(
    _WHOLE_RUNS.where(runs.c.id == bindparam("run_id")).with_for_update(of=runs, key_share=True)
)
UPDATE_RUN = PreparedStatement(
    # With the id: SQLite gives the sequence of a deleted run again.
    update(runs).where(
        runs.c.sequence == bindparam("of_run"),
        runs.c.id == bindparam("of_id"),
        runs.c.version == bindparam("of_version"),
    )
)
UPDATE_DETAILS = PreparedStatement(update(run_details).where(run_details.c.run == bindparam("of_run")))
_OF_ID = select(runs.c.sequence).where(runs.c.id == bindparam("run_id"))
SEQUENCE = PreparedStatement(_OF_ID)
_SEQUENCE_LOCKED = PreparedStatement(_OF_ID.with_for_update(key_share=True))
_OF_NAME = (experiments.c.workspace == bindparam("of_workspace"), experiments.c.name == bindparam("named"))
_COUNT_UP = PreparedStatement(update(experiments).where(*_OF_NAME).values(last_number=experiments.c.last_number + 1))
_LAST_NUMBER = PreparedStatement(select(experiments.c.key, experiments.c.last_number).where(*_OF_NAME))


def read_run(connection: Connection, run_id: RunId, *, lock: bool = False) -> RunRecord:
    rows = (_ONE_LOCKED if lock else _ONE).driver_rows(connection, {"run_id": run_id})
    if not rows:
        raise run_not_found(run_id)
    return to_record(rows[0])


def run_key(connection: Connection, run_id: RunId, *, lock: bool = False) -> int:
    """Sequence of the run. With `lock`, writers of this run wait for each other. Raises NotFound."""
    row = (_SEQUENCE_LOCKED if lock else SEQUENCE).first(connection, {"run_id": run_id})
    if row is None:
        raise run_not_found(run_id)
    return int(row[0])


def run_not_found(run_id: str) -> NotFound:
    return NotFound(f"There is no run {run_id!r}.", hint="`runyard runs list` shows the runs there are.")


def _of_type(table: Table, *types: type) -> tuple[str, ...]:
    return tuple(column.name for column in table.columns if isinstance(column.type, types))


_TIMES = _of_type(runs, UtcTime)
_JSON = _of_type(runs, JsonText)


def to_record(row: Sequence[Any]) -> RunRecord:
    """Record of a row of LISTED as the driver returns it, with or without the details."""
    values = dict(zip(WHOLE, row, strict=False))
    for name in _TIMES:
        time = values[name]
        if time is not None:
            values[name] = read_time(time)
    for name in _JSON:
        text = values[name]
        if text is not None:
            values[name] = {} if text == "{}" else from_json(text)
    if len(row) < len(WHOLE):
        values |= _NO_DETAILS
    else:
        values["definition"] = RunDefinition(from_json(values["definition"]))
    values["status"] = _STATUS[values["status"]]
    values["warnings"] = tuple(values["warnings"])
    values["nodes"] = tuple(values["nodes"])
    return _made(values)


def _made(values: dict[str, Any]) -> RunRecord:
    # Without the constructor: for a frozen class it takes half the time of a listing.
    record = object.__new__(RunRecord)
    object.__setattr__(record, "__dict__", values)
    return record


def copy_with(run: RunRecord, **fields: Any) -> RunRecord:
    """The same as `dataclasses.replace`, in a tenth of the time."""
    return _made(run.__dict__ | fields)


def row_of(run: RunRecord, names: Iterable[str]) -> dict[str, Any]:
    """Columns of `runs` for these fields of the record."""
    row = {name: getattr(run, name) for name in names if name not in DETAILS}
    if "status" in row:
        row |= {"status": run.status.value, "finished": run.status.is_terminal}
    return row


def details_of(run: RunRecord, names: Iterable[str]) -> dict[str, Any]:
    """Columns of `run_details` for these fields of the record."""
    return {
        name: run.definition.raw if name == "definition" else getattr(run, name) for name in names if name in DETAILS
    }


def changed_fields(before: RunRecord, after: RunRecord) -> list[str]:
    old, new = before.__dict__, after.__dict__
    return [name for name in WHOLE if new[name] is not old[name] and new[name] != old[name]]


def as_stored(run: RunRecord, names: Iterable[str] = WHOLE) -> RunRecord:
    """The record as it is read back once these fields are written."""
    stored = {name: _STORED[name](getattr(run, name)) for name in names if name in _STORED}
    return copy_with(run, **stored)


def _plain_json(value: Any) -> Any:
    try:
        if orjson.loads(orjson.dumps(value)) == value:
            return value
    except (TypeError, orjson.JSONDecodeError):  # numbers and objects that only the slower way can write
        pass
    return from_json(json_text(value))


def _stored_definition(definition: RunDefinition) -> RunDefinition:
    raw = _plain_json(definition.raw)
    return definition if raw is definition.raw else RunDefinition(raw)


def _unless_none(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)


_STORED: dict[str, Callable[[Any], Any]] = {
    **{name: _unless_none(storable) for name in _of_type(runs, StorableText) if name in _COLUMNS and name != "status"},
    **{name: _unless_none(lambda time: time.astimezone(UTC)) for name in _TIMES},
    **{name: _unless_none(_plain_json) for name in _JSON},
    **{name: lambda texts: tuple(_plain_json(list(texts))) for name in ("warnings", "nodes")},
    "definition": _stored_definition,
    "environment_lock": storable,
}


def with_changes(run: RunRecord, changes: Mapping[str, Any]) -> RunRecord:
    """The record with changes applied: tags and properties merged, warnings appended, other fields replaced."""
    fixed = _FIXED & changes.keys()
    if fixed:
        raise InvalidArgument(f"{', '.join(sorted(fixed))} of run {run.id!r} cannot be changed this way.")
    merged = dict(changes)
    if "tags" in merged:
        tags = {**run.tags, **merged["tags"]}
        merged["tags"] = {key: value for key, value in tags.items() if value is not None}
    if "properties" in merged:
        merged["properties"] = _with_properties(run, merged["properties"])
    if "warnings" in merged:
        merged["warnings"] = (*run.warnings, *(text for text in merged["warnings"] if text not in run.warnings))
    return replace(run, **merged)


def _with_properties(run: RunRecord, added: Mapping[str, str]) -> dict[str, str]:
    for key, value in added.items():
        if run.properties.get(key, value) != value:
            raise Conflict(
                f"Property {key!r} of run {run.id!r} is already {run.properties[key]!r} and cannot become {value!r}.",
                hint="Properties never change; use a tag.",
            )
    return {**run.properties, **added}


def ensure_experiment(database: Database, connection: Connection, workspace: str, name: str) -> None:
    row = {
        "workspace": workspace,
        "name": name,
        "id": str(uuid4()),
        "created_at": database.now(),
        "description": "",
        "tags": {},
        "last_number": 0,
    }
    connection.execute(database.insert(experiments).values(row).on_conflict_do_nothing())


def next_number(database: Database, connection: Connection, workspace: str, name: str) -> tuple[int, int]:
    """Key of the experiment and number of its next run. The row stays locked until the transaction ends."""
    named = {"of_workspace": workspace, "named": name}
    if _COUNT_UP.change(connection, named) == 0:
        ensure_experiment(database, connection, workspace, name)
        _COUNT_UP.change(connection, named)
    row = _LAST_NUMBER.first(connection, named)
    assert row is not None
    key, number = row
    return key, number
