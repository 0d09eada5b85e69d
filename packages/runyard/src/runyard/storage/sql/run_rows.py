"""Converts run records to rows of `runs` and `run_details` and back; numbers the runs of experiments."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection, bindparam, select, update

from runyard.core.definitions.run import EMPTY_DEFINITION, RunDefinition
from runyard.core.errors import Conflict, InvalidArgument, NotFound
from runyard.core.records.runs import RunId, RunRecord, RunStatus
from runyard.storage.sql.columns import AnyRow
from runyard.storage.sql.database import Database
from runyard.storage.sql.schema import experiments, run_details, runs

DETAILS = ("definition", "environment_lock")
_COLUMNS = tuple(f.name for f in fields(RunRecord) if f.name not in DETAILS)
_WHOLE = _COLUMNS + DETAILS
_FIXED = frozenset({"id", "workspace", "experiment", "number", "status", "created_at", "version", "sequence"})
_NO_DETAILS: dict[str, Any] = {"definition": EMPTY_DEFINITION, "environment_lock": ""}
_STATUS = {status.value: status for status in RunStatus}
LISTED = tuple(runs.c[name] for name in _COLUMNS)

_WHOLE_RUNS = select(*LISTED, run_details.c.definition, run_details.c.environment_lock).join_from(runs, run_details)
# Built once: building a statement of thirty columns takes longer than running it.
_ONE = _WHOLE_RUNS.where(runs.c.id == bindparam("run_id"))
_ONE_LOCKED = _ONE.with_for_update(of=runs, key_share=True)
UPDATE_RUN = update(runs).where(runs.c.sequence == bindparam("of_run"))
UPDATE_DETAILS = update(run_details).where(run_details.c.run == bindparam("of_run"))
SEQUENCE = select(runs.c.sequence).where(runs.c.id == bindparam("run_id"))
_SEQUENCE_LOCKED = SEQUENCE.with_for_update(key_share=True)
_OF_NAME = (experiments.c.workspace == bindparam("of_workspace"), experiments.c.name == bindparam("named"))
_COUNT_UP = update(experiments).where(*_OF_NAME).values(last_number=experiments.c.last_number + 1)
_LAST_NUMBER = select(experiments.c.key, experiments.c.last_number).where(*_OF_NAME)


def read_run(connection: Connection, run_id: RunId, *, lock: bool = False) -> RunRecord:
    row = connection.execute(_ONE_LOCKED if lock else _ONE, {"run_id": run_id}).first()
    if row is None:
        raise run_not_found(run_id)
    return to_record(row)


def run_key(connection: Connection, run_id: RunId, *, lock: bool = False) -> int:
    """Sequence of the run. With `lock`, writers of this run wait for each other. Raises NotFound."""
    key: int | None = connection.execute(_SEQUENCE_LOCKED if lock else SEQUENCE, {"run_id": run_id}).scalar()
    if key is None:
        raise run_not_found(run_id)
    return key


def run_not_found(run_id: str) -> NotFound:
    return NotFound(f"There is no run {run_id!r}.", hint="`runyard runs list` shows the runs there are.")


def to_record(row: AnyRow) -> RunRecord:
    """Record of a row of LISTED, with or without the details."""
    values = _NO_DETAILS | dict(zip(_WHOLE, row, strict=False))
    if values["definition"] is not EMPTY_DEFINITION:
        values["definition"] = RunDefinition(values["definition"])
    values["status"] = _STATUS[values["status"]]
    values["warnings"] = tuple(values["warnings"])
    values["nodes"] = tuple(values["nodes"])
    # Without the constructor: for a frozen class it takes half the time of a listing.
    record = object.__new__(RunRecord)
    record.__dict__.update(values)
    return record


def to_row(run: RunRecord) -> dict[str, Any]:
    """Row of `runs`; the caller adds `experiment_key`."""
    row = {name: getattr(run, name) for name in _COLUMNS if name != "sequence"}
    return row | {"status": run.status.value, "finished": run.status.is_terminal}


def details_row(run: RunRecord) -> dict[str, Any]:
    return {"definition": run.definition.raw, "environment_lock": run.environment_lock}


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
    if connection.execute(_COUNT_UP, named).rowcount == 0:
        ensure_experiment(database, connection, workspace, name)
        connection.execute(_COUNT_UP, named)
    key, number = connection.execute(_LAST_NUMBER, named).one()
    return key, number
