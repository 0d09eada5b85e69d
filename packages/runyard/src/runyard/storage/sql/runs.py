from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, bindparam, delete, exists, false, insert, or_, select, true
from sqlalchemy.exc import DatabaseError, IntegrityError

from runyard.core.errors import AlreadyExists, Conflict, InvalidArgument, RunyardError
from runyard.core.records.runs import NEXT, QueuedRun, RunEvent, RunId, RunQuery, RunRecord, RunStatus
from runyard.storage.sql.columns import AnySelect, index_key, label_digest, label_digests
from runyard.storage.sql.database import Database
from runyard.storage.sql.run_rows import (
    LISTED,
    SEQUENCE,
    UPDATE_DETAILS,
    UPDATE_RUN,
    details_row,
    next_number,
    read_run,
    run_key,
    to_record,
    to_row,
    with_changes,
)
from runyard.storage.sql.salvage import is_damage, last_run_key, readable_between, warn_damaged_runs
from runyard.storage.sql.schema import experiments, metrics, run_details, run_events, run_labels, runs
from runyard.storage.sql.trials import delete_trials

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
# Built once: building a statement takes longer than running it.
_INSERT_RUN, _INSERT_DETAILS = insert(runs), insert(run_details)
_INSERT_EVENT, _INSERT_LABELS = insert(run_events), insert(run_labels)


class SqlRunStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, run: RunRecord) -> RunRecord:
        try:
            with self._database.write() as connection:
                return self._insert(connection, run)
        except IntegrityError as error:
            raise AlreadyExists(f"There is already a run {run.id!r}.", hint="Choose another run id.") from error

    def get(self, run_id: RunId) -> RunRecord:
        with self._database.read() as connection:
            return read_run(connection, run_id)

    def move(self, seen: RunRecord, to: RunStatus, **changes: Any) -> RunRecord:
        if to not in NEXT[seen.status]:
            raise Conflict(f"Run {seen.id!r} cannot go from {seen.status} to {to}.")
        with self._database.write() as connection:
            current = read_run(connection, seen.id, lock=True)
            if current.version != seen.version:
                raise Conflict(
                    f"Run {seen.id!r} was changed by somebody else: it is {current.status} now.",
                    hint="Read it again and decide anew.",
                )
            # The clock may have been set back since.
            now = max(self._database.now(), current.started_at or current.created_at)
            if to is RunStatus.RUNNING:
                changes.setdefault("started_at", current.started_at or now)
            if to.is_terminal:
                changes.setdefault("ended_at", now)
            moved = replace(with_changes(current, changes), status=to)
            _insert_event(connection, current.sequence, RunEvent(now, "status", to.value))
            return self._write(connection, current, moved)

    def update(self, run_id: RunId, **changes: Any) -> RunRecord:
        with self._database.write() as connection:
            current = read_run(connection, run_id, lock=True)
            changed = with_changes(current, changes)
            return current if changed == current else self._write(connection, current, changed)

    def list(self, query: RunQuery) -> Sequence[RunRecord]:
        # Salvage reads by key, so it cannot keep the order of a listing by metric.
        return self._listed(listing_query(query), query.before, query.limit, may_salvage=query.order_by_metric is None)

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
        with self._database.write() as connection:
            found = connection.execute(_TO_DELETE, {"run_ids": list(run_ids)}).all()
            for run_id, finished, _ in found:
                if not finished:
                    raise Conflict(f"Run {run_id!r} is still going on.", hint="Cancel it first.")
            delete_trials(connection, [(parent_id, run_id) for run_id, _, parent_id in found if parent_id])
            connection.execute(_DELETE, {"run_ids": [run_id for run_id, *_ in found]})

    def _insert(self, connection: Connection, run: RunRecord) -> RunRecord:
        taken = connection.execute(SEQUENCE, {"run_id": run.id}).scalar()
        if taken is not None:
            raise AlreadyExists(f"There is already a run {run.id!r}.", hint="Choose another run id.")
        experiment_key, number = next_number(self._database, connection, run.workspace, run.experiment)
        numbered = replace(run, number=number)
        added = connection.execute(_INSERT_RUN, to_row(numbered) | {"experiment_key": experiment_key})
        assert added.inserted_primary_key is not None
        sequence = added.inserted_primary_key[0]
        connection.execute(_INSERT_DETAILS, details_row(run) | {"run": sequence})
        _insert_labels(connection, sequence, label_digests(run.workspace, run.tags, run.properties))
        _insert_event(connection, sequence, RunEvent(run.created_at, "status", run.status.value))
        return replace(numbered, sequence=sequence)

    def _write(self, connection: Connection, current: RunRecord, changed: RunRecord) -> RunRecord:
        written = replace(changed, version=current.version + 1)
        of_run = {"of_run": current.sequence}
        connection.execute(UPDATE_RUN, _changes(to_row(current), to_row(written)) | of_run)
        if details := _changes(details_row(current), details_row(written)):
            connection.execute(UPDATE_DETAILS, details | of_run)
        if current.tags is written.tags and current.properties is written.properties:
            return written
        before = label_digests(current.workspace, current.tags, current.properties)
        after = label_digests(written.workspace, written.tags, written.properties)
        _delete_labels(connection, current.sequence, before - after)
        _insert_labels(connection, current.sequence, after - before)
        return written


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in after.items() if value != before[name]}


def _insert_event(connection: Connection, sequence: int, event: RunEvent) -> None:
    row = {"run": sequence, "at": event.at, "kind": event.kind, "text": event.text}
    connection.execute(_INSERT_EVENT, row)


def _insert_labels(connection: Connection, sequence: int, labels: set[bytes]) -> None:
    if labels:
        connection.execute(_INSERT_LABELS, [{"label": label, "run": sequence} for label in labels])


def _delete_labels(connection: Connection, sequence: int, labels: set[bytes]) -> None:
    if labels:
        of_run = run_labels.c.run == sequence
        connection.execute(delete(run_labels).where(of_run, run_labels.c.label.in_(labels)))


_LISTED_RUNS = select(*LISTED)
_REACHED = metrics.alias("reached")


def listing_query(query: RunQuery) -> AnySelect:
    """One statement per listing, written so that one index yields the rows in order and LIMIT stops it early."""
    if query.order_by_metric is not None:
        return _by_metric(query, query.order_by_metric)
    if query.metric_above is not None:
        raise InvalidArgument(
            f"metric_above={query.metric_above!r} needs order_by_metric too.", hint="Name the metric to compare."
        )
    labels = _labels(query)
    if labels:
        return _by_label(query, labels)
    found = _LISTED_RUNS.where(_scope(query, runs), *_filters(query))
    if query.before is not None:
        found = found.where(runs.c.sequence < query.before)
    return found.order_by(runs.c.sequence.desc()).limit(query.limit)


def _by_label(query: RunQuery, labels: Sequence[bytes]) -> AnySelect:
    wanted = [run_labels.c.label == labels[0], *map(_has_label, labels[1:])]
    if query.experiment is not None:  # the workspace is part of the label
        wanted.append(_unindexed(_scope(query, runs)))
    if query.before is not None:
        wanted.append(run_labels.c.run < query.before)
    found = _LISTED_RUNS.join_from(run_labels, runs).where(*wanted, *map(_unindexed, _filters(query)))
    return found.order_by(run_labels.c.run.desc()).limit(query.limit)


def _by_metric(query: RunQuery, name: str) -> AnySelect:
    order = (metrics.c.last.desc(), metrics.c.run.desc()) if query.descending else (metrics.c.last, metrics.c.run)
    wanted = [_scope(query, metrics), metrics.c.name_key == index_key(name), metrics.c.last.isnot(None)]
    if query.metric_above is not None:
        wanted.append(metrics.c.last > query.metric_above)
    if query.before is not None:
        wanted.append(_after(query, name, query.before))
    found = _LISTED_RUNS.join_from(metrics, runs)
    found = found.where(*wanted, *map(_has_label, _labels(query)), *map(_unindexed, _filters(query)))
    return found.order_by(*order).limit(query.limit)


def _after(query: RunQuery, name: str, sequence: int) -> ColumnElement[bool]:
    """Condition for the rows after the run of this sequence, the last one of the page before."""
    reached = _REACHED
    of_reached = and_(reached.c.run == sequence, reached.c.name_key == index_key(name), reached.c.last.isnot(None))
    last = select(reached.c.last).where(of_reached).scalar_subquery()
    column, key = metrics.c.last, metrics.c.run
    if query.descending:
        return or_(column < last, and_(column == last, key < sequence))
    return or_(column > last, and_(column == last, key > sequence))


def _scope(query: RunQuery, table: Any) -> ColumnElement[bool]:
    if query.experiment is None:
        in_workspace: ColumnElement[bool] = table.c.workspace == query.workspace
        return in_workspace
    named = and_(experiments.c.workspace == query.workspace, experiments.c.name == query.experiment)
    key = select(experiments.c.key).where(named).scalar_subquery()
    in_experiment: ColumnElement[bool] = table.c.experiment_key == key
    return in_experiment


def _filters(query: RunQuery) -> list[ColumnElement[bool]]:
    filters: list[ColumnElement[bool]] = []
    if query.parent_id is not None:
        filters.append(runs.c.parent_id == query.parent_id)
    elif not query.include_children:
        filters.append(runs.c.parent_id.is_(None))
    if query.created_by is not None:
        filters.append(runs.c.created_by == query.created_by)
    if query.type is not None:
        filters.append(runs.c.type == query.type)
    if query.status:
        filters.append(runs.c.status.in_([status.value for status in query.status]))
    return filters


def _unindexed(condition: ColumnElement[bool]) -> ColumnElement[bool]:
    """The same condition in a form that matches no index, so that SQLite starts with the intended table."""
    return condition == true()


def _labels(query: RunQuery) -> list[bytes]:
    return [
        *(label_digest(query.workspace, "tag", *pair) for pair in query.tags.items()),
        *(label_digest(query.workspace, "property", *pair) for pair in query.properties.items()),
    ]


def _has_label(digest: bytes) -> ColumnElement[bool]:
    other = run_labels.alias()
    return exists().where(other.c.label == digest, other.c.run == runs.c.sequence)
