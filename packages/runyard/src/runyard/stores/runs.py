from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, bindparam, delete, false, insert, select
from sqlalchemy.exc import DatabaseError, IntegrityError

from runyard.errors import AlreadyExists, Conflict, RunyardError
from runyard.model.runs import NEXT, QueuedRun, RunEvent, RunId, RunQuery, RunRecord, RunStatus
from runyard.stores.column_types import AnySelect
from runyard.stores.database import Database
from runyard.stores.experiments import next_number
from runyard.stores.keys import labels_of
from runyard.stores.recent_runs import RecentRuns
from runyard.stores.run_listing import listing
from runyard.stores.run_rows import (
    LISTED,
    UPDATE_DETAILS,
    UPDATE_RUN,
    details_row,
    read_run,
    run_key,
    to_record,
    to_row,
    with_changes,
)
from runyard.stores.salvage import is_damage, last_run_key, readable_between, warn_damaged_runs
from runyard.stores.schema import run_details, run_events, run_labels, runs
from runyard.stores.trials import delete_trials

_EVENTS = (
    select(*run_events.c["at", "kind", "text"])
    .join_from(run_events, runs, run_events.c.run == runs.c.sequence)
    .where(runs.c.id == bindparam("run_id"))
    .order_by(run_events.c.key)
)
_UNFINISHED = select(*LISTED).where(runs.c.finished == false()).order_by(runs.c.sequence)
_QUEUE = (
    select(*runs.c["id", "message", "parent_id"])
    .where(
        runs.c.workspace == bindparam("workspace"),
        runs.c.status == RunStatus.QUEUED.value,
        runs.c.target == bindparam("target"),
        runs.c.nodes == [],
    )
    .order_by(runs.c.sequence)
    .limit(bindparam("limit"))
)
_BELOW = select(runs.c.sequence, runs.c.id).where(runs.c.parent_id == bindparam("run_id")).cte(recursive=True)
_BELOW = _BELOW.union(select(runs.c.sequence, runs.c.id).join_from(_BELOW, runs, runs.c.parent_id == _BELOW.c.id))
_DESCENDANTS = select(*LISTED).join_from(_BELOW, runs, runs.c.sequence == _BELOW.c.sequence).order_by(runs.c.sequence)

_TO_DELETE = (
    select(*runs.c["id", "finished", "parent_id"])
    .where(runs.c.id.in_(bindparam("run_ids", expanding=True)))
    .with_for_update()
)
_DELETE = delete(runs).where(runs.c.id.in_(bindparam("run_ids", expanding=True)))


class SqlRunStore:
    """Answers `get` from memory where it can: while this process holds the database's lease, nobody else writes."""

    def __init__(self, database: Database, recent: RecentRuns | None = None) -> None:
        self._database, self._recent = database, recent or RecentRuns()

    def create(self, run: RunRecord) -> RunRecord:
        try:
            with self._recent.writing(run.id) as write, self._database.write() as connection:
                write.record = self._insert(connection, run)
                return write.record
        except IntegrityError as error:
            raise AlreadyExists(f"There is already a run {run.id!r}.", hint="Choose another run id.") from error

    def get(self, run_id: RunId) -> RunRecord:
        known = self._known(run_id)
        if known is not None:
            return known
        mark = self._recent.mark(run_id)
        with self._database.read() as connection:
            found = read_run(connection, run_id)
        self._recent.keep(found, mark)
        return found

    def _known(self, run_id: RunId) -> RunRecord | None:
        return self._recent.find(run_id) if self._database.fence.epoch is not None else None

    def move(self, seen: RunRecord, to: RunStatus, **changes: Any) -> RunRecord:
        if to not in NEXT[seen.status]:
            raise Conflict(f"Run {seen.id!r} cannot go from {seen.status} to {to}.")
        known = self._known(seen.id)
        with self._recent.writing(seen.id) as write, self._database.write() as connection:
            current = known if known is not None else read_run(connection, seen.id, lock=True)
            if current.version != seen.version:
                raise _changed_meanwhile(current)
            # The clock may have been set back since.
            now = max(self._database.now(), current.started_at or current.created_at)
            if to is RunStatus.RUNNING:
                changes.setdefault("started_at", current.started_at or now)
            if to.is_terminal:
                changes.setdefault("ended_at", now)
            moved = replace(with_changes(current, changes), status=to)
            _insert_event(connection, current.sequence, RunEvent(now, "status", to.value))
            write.record = self._write(connection, current, moved)
            return write.record

    def update(self, run_id: RunId, **changes: Any) -> RunRecord:
        with self._recent.writing(run_id) as write, self._database.write() as connection:
            current = read_run(connection, run_id, lock=True)
            changed = with_changes(current, changes)
            write.record = current if changed == current else self._write(connection, current, changed)
            return write.record

    def list(self, query: RunQuery) -> Sequence[RunRecord]:
        # Salvage reads by key, so it cannot keep the order of a listing by metric.
        return self._listed(listing(query), query.before, query.limit, may_salvage=query.order_by_metric is None)

    def unfinished(self) -> Sequence[RunRecord]:
        found = self._listed(_UNFINISHED, None, None)
        return sorted(found, key=lambda run: run.sequence)

    def _listed(
        self, statement: AnySelect, before: int | None, limit: int | None, *, may_salvage: bool = True
    ) -> Sequence[RunRecord]:
        try:
            with self._database.read() as connection:
                return [to_record(row) for row in connection.execute(statement).all()]
        except (RunyardError, DatabaseError, ValueError, KeyError, TypeError) as error:
            cause = error.__cause__ if isinstance(error, RunyardError) else error
            if not may_salvage or not isinstance(cause, Exception) or not is_damage(cause):
                raise
        return self._readable(statement, before, limit)

    def _readable(self, statement: AnySelect, before: int | None, limit: int | None) -> Sequence[RunRecord]:
        """The listing without rows on damaged pages; the log names them."""
        with self._database.engine.connect() as connection:

            def read(low: int, high: int) -> list[RunRecord]:
                one = runs.c.sequence == low if low == high else runs.c.sequence.between(low, high)
                try:
                    return [to_record(row) for row in connection.execute(statement.where(one)).all()]
                finally:
                    connection.rollback()  # PostgreSQL refuses further queries after an error

            high = last_run_key(connection) if before is None else before - 1
            found, bad = readable_between(1, high, read, limit=limit)
        warn_damaged_runs(bad)
        return found

    def queue(self, workspace: str, target: str, *, limit: int) -> Sequence[QueuedRun]:
        with self._database.read() as connection:
            found = connection.execute(_QUEUE, {"workspace": workspace, "target": target, "limit": limit})
            return [QueuedRun(*row) for row in found.all()]

    def descendants(self, run_id: RunId) -> Sequence[RunRecord]:
        with self._database.read() as connection:
            return [to_record(row) for row in connection.execute(_DESCENDANTS, {"run_id": run_id}).all()]

    def add_event(self, run_id: RunId, event: RunEvent) -> None:
        with self._database.write() as connection:
            _insert_event(connection, run_key(connection, run_id), event)

    def events(self, run_id: RunId) -> Sequence[RunEvent]:
        with self._database.read() as connection:
            found = [RunEvent(*row) for row in connection.execute(_EVENTS, {"run_id": run_id})]
            if not found:
                run_key(connection, run_id)
            return found

    def delete(self, *run_ids: RunId) -> None:
        with ExitStack() as writes, self._database.write() as connection:
            for run_id in run_ids:
                writes.enter_context(self._recent.writing(run_id))
            found = connection.execute(_TO_DELETE, {"run_ids": list(run_ids)}).all()
            for run_id, finished, _ in found:
                if not finished:
                    raise Conflict(f"Run {run_id!r} is still going on.", hint="Cancel it first.")
            delete_trials(connection, [(parent_id, run_id) for run_id, _, parent_id in found if parent_id])
            connection.execute(_DELETE, {"run_ids": [run_id for run_id, *_ in found]})

    def _insert(self, connection: Connection, run: RunRecord) -> RunRecord:
        taken = connection.execute(select(runs.c.sequence).where(runs.c.id == run.id)).scalar()
        if taken is not None:
            raise AlreadyExists(f"There is already a run {run.id!r}.", hint="Choose another run id.")
        experiment_key, number = next_number(self._database, connection, run.workspace, run.experiment)
        numbered = replace(run, number=number)
        added = connection.execute(insert(runs), to_row(numbered) | {"experiment_key": experiment_key})
        assert added.inserted_primary_key is not None
        sequence = added.inserted_primary_key[0]
        connection.execute(insert(run_details), details_row(run) | {"run": sequence})
        _insert_labels(connection, sequence, labels_of(run.workspace, run.tags, run.properties))
        _insert_event(connection, sequence, RunEvent(run.created_at, "status", run.status.value))
        return replace(numbered, sequence=sequence)

    def _write(self, connection: Connection, current: RunRecord, changed: RunRecord) -> RunRecord:
        """Write the changed columns. Raises Conflict where the stored version is not `current`'s any more."""
        written = replace(changed, version=current.version + 1)
        of_run = {"of_run": current.sequence}
        guarded = of_run | {"of_version": current.version}
        updated = connection.execute(UPDATE_RUN, _changes(to_row(current), to_row(written)) | guarded)
        if updated.rowcount != 1:
            raise _changed_meanwhile(read_run(connection, current.id))
        if details := _changes(details_row(current), details_row(written)):
            connection.execute(UPDATE_DETAILS, details | of_run)
        if current.tags is written.tags and current.properties is written.properties:
            return written
        before = labels_of(current.workspace, current.tags, current.properties)
        after = labels_of(written.workspace, written.tags, written.properties)
        _delete_labels(connection, current.sequence, before - after)
        _insert_labels(connection, current.sequence, after - before)
        return written


def _changed_meanwhile(current: RunRecord) -> Conflict:
    return Conflict(
        f"Run {current.id!r} was changed by somebody else: it is {current.status} now.",
        hint="Read it again and decide anew.",
    )


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in after.items() if value != before[name]}


def _insert_event(connection: Connection, sequence: int, event: RunEvent) -> None:
    row = {"run": sequence, "at": event.at, "kind": event.kind, "text": event.text}
    connection.execute(insert(run_events), row)


def _insert_labels(connection: Connection, sequence: int, labels: set[bytes]) -> None:
    if labels:
        connection.execute(insert(run_labels), [{"label": label, "run": sequence} for label in labels])


def _delete_labels(connection: Connection, sequence: int, labels: set[bytes]) -> None:
    if labels:
        of_run = run_labels.c.run == sequence
        connection.execute(delete(run_labels).where(of_run, run_labels.c.label.in_(labels)))
