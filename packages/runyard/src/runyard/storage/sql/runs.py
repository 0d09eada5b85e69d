from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, bindparam, delete, exists, false, insert, or_, select, true
from sqlalchemy.exc import DatabaseError, IntegrityError

from runyard.core.errors import AlreadyExists, Conflict, InvalidArgument, RunyardError
from runyard.core.records.runs import NEXT, QueuedRun, RunEvent, RunId, RunQuery, RunRecord, RunStatus
from runyard.storage.sql.columns import AnySelect, index_key, label_digest, label_digests
from runyard.storage.sql.database import Database
from runyard.storage.sql.prepared import PreparedStatement, driver_rows
from runyard.storage.sql.recent_runs import RecentRun
from runyard.storage.sql.run_rows import (
    LISTED,
    SEQUENCE,
    UPDATE_DETAILS,
    UPDATE_RUN,
    WHOLE,
    as_stored,
    changed_fields,
    copy_with,
    details_of,
    next_number,
    read_run,
    row_of,
    run_key,
    run_not_found,
    to_record,
    with_changes,
)
from runyard.storage.sql.salvage import is_damage, last_run_key, readable_between, warn_damaged_runs
from runyard.storage.sql.schema import experiments, metrics, run_details, run_events, run_labels, runs
from runyard.storage.sql.trials import delete_trials

_EVENTS = PreparedStatement(
    select(*run_events.c["at", "kind", "text"])
    .join_from(run_events, runs, run_events.c.run == runs.c.sequence)
    .where(runs.c.id == bindparam("run_id"))
    .order_by(run_events.c.key)
)
_UNFINISHED = select(*LISTED).where(runs.c.finished == false()).order_by(runs.c.sequence)
_OPEN_RUNS = PreparedStatement(_UNFINISHED)
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
_INSERT_RUN, _INSERT_DETAILS = PreparedStatement(insert(runs)), PreparedStatement(insert(run_details))
_INSERT_EVENT, _INSERT_LABELS = PreparedStatement(insert(run_events)), PreparedStatement(insert(run_labels))


class SqlRunStore:
    def __init__(self, database: Database) -> None:
        self._database, self._recent = database, database.recent_runs

    def create(self, run: RunRecord) -> RunRecord:
        try:
            with self._recent.writing(run.id) as write, self._database.write() as connection:
                write.written = self._insert(connection, run)
        except IntegrityError as error:
            raise AlreadyExists(f"There is already a run {run.id!r}.", hint="Choose another run id.") from error
        return write.written.run

    def get(self, run_id: RunId) -> RunRecord:
        known = self._recent.get(run_id)
        if known is not None:
            return known.run
        with self._database.read() as connection:
            return read_run(connection, run_id)

    def move(self, seen: RunRecord, to: RunStatus, passed: Sequence[RunEvent] = (), **changes: Any) -> RunRecord:
        if to not in NEXT[seen.status]:
            raise Conflict(f"Run {seen.id!r} cannot go from {seen.status} to {to}.")
        with self._recent.writing(seen.id) as write, self._database.write() as connection:
            moved, known = None, write.known()
            if known is not None and known.run.version == seen.version:
                moved = self._move(connection, known, to, passed, changes)
            if moved is None:
                current = read_run(connection, seen.id, lock=True)
                if current.version != seen.version:
                    raise Conflict(
                        f"Run {seen.id!r} was changed by somebody else: it is {current.status} now.",
                        hint="Read it again and decide anew.",
                    )
                moved = self._move(connection, RecentRun(current), to, passed, changes)
            assert moved is not None
            write.written = moved
        return moved.run

    def update(self, run_id: RunId, **changes: Any) -> RunRecord:
        with self._recent.writing(run_id) as write, self._database.write() as connection:
            known = write.known()
            updated = None if known is None else self._update(connection, known, changes)
            if updated is None:
                updated = self._update(connection, RecentRun(read_run(connection, run_id, lock=True)), changes)
            assert updated is not None
            write.written = updated
        return updated.run

    def _move(
        self,
        connection: Connection,
        current: RecentRun,
        to: RunStatus,
        passed: Sequence[RunEvent],
        changes: Mapping[str, Any],
    ) -> RecentRun | None:
        """Write the run with its new status; None if it is no longer as in `current`."""
        run, given = current.run, dict(changes)
        # The clock may have been set back since.
        now = max(self._database.now(), run.started_at or run.created_at, *(event.at for event in passed))
        if to is RunStatus.RUNNING:
            given.setdefault("started_at", run.started_at or now)
        if to.is_terminal:
            given.setdefault("ended_at", now)
        moved = self._write(connection, run, copy_with(with_changes(run, given), status=to))
        if moved is None:
            return None
        added = [*passed, RunEvent(now, "status", to.value)]
        for event in added:
            _insert_event(connection, run.sequence, event)
        events = None if current.events is None else (*current.events, *added)
        return RecentRun(moved, events, current.has_no_uses)

    def _update(self, connection: Connection, current: RecentRun, changes: Mapping[str, Any]) -> RecentRun | None:
        """Write the run with the changes, if there are any; None if it is no longer as in `current`."""
        changed = with_changes(current.run, changes)
        if changed == current.run:
            return current
        written = self._write(connection, current.run, changed)
        return None if written is None else RecentRun(written, current.events, current.has_no_uses)

    def list(self, query: RunQuery) -> Sequence[RunRecord]:
        def read(connection: Connection) -> Sequence[Sequence[Any]]:
            if query.tags or query.properties or query.status:
                return driver_rows(connection, listing_query(query))
            values = _listing_values(query)
            return _prepared_listing(tuple(values), query.include_children, query.descending).driver_rows(
                connection, values
            )

        try:
            return self._read(read)
        except (RunyardError, DatabaseError, ValueError, KeyError, TypeError) as error:
            # Salvage reads by key, so it cannot keep the order of a listing by metric.
            if query.order_by_metric is not None or not _means_damage(error):
                raise
        return self._readable(listing_query(query), query.before, query.limit)

    def unfinished(self) -> Sequence[RunRecord]:
        try:
            found = self._read(lambda connection: _OPEN_RUNS.driver_rows(connection, {}))
        except (RunyardError, DatabaseError, ValueError, KeyError, TypeError) as error:
            if not _means_damage(error):
                raise
            found = self._readable(_UNFINISHED, None, None)
        return sorted(found, key=lambda run: run.sequence)

    def _read(self, read: Callable[[Connection], Sequence[Sequence[Any]]]) -> Sequence[RunRecord]:
        with self._database.read() as connection:
            return [to_record(row) for row in read(connection)]

    def _readable(self, statement: AnySelect, before: int | None, limit: int | None) -> Sequence[RunRecord]:
        """The listing without rows on damaged pages; the log names them."""
        with self._database.engine.connect() as connection:

            def read(low: int, high: int) -> list[RunRecord]:
                one = runs.c.sequence == low if low == high else runs.c.sequence.between(low, high)
                try:
                    return [to_record(row) for row in driver_rows(connection, statement.where(one))]
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
            return [to_record(row) for row in driver_rows(connection, _DESCENDANTS, {"run_id": run_id})]

    def add_event(self, run_id: RunId, event: RunEvent) -> None:
        try:
            with self._database.write() as connection:
                _insert_event(connection, run_key(connection, run_id), event)
        except IntegrityError as error:  # on PostgreSQL it may be deleted in between
            raise run_not_found(run_id) from error
        finally:
            self._recent.forget(run_id)

    def events(self, run_id: RunId) -> Sequence[RunEvent]:
        known = self._recent.get(run_id)
        if known is not None and known.events is not None:
            return list(known.events)
        with self._database.read() as connection:
            found = [RunEvent(*row) for row in _EVENTS.rows(connection, {"run_id": run_id})]
            if not found:
                run_key(connection, run_id)
            return found

    def delete(self, *run_ids: RunId) -> None:
        try:
            with self._database.write() as connection:
                found = connection.execute(_TO_DELETE, {"run_ids": list(run_ids)}).all()
                for run_id, finished, _ in found:
                    if not finished:
                        raise Conflict(f"Run {run_id!r} is still going on.", hint="Cancel it first.")
                delete_trials(connection, [(parent_id, run_id) for run_id, _, parent_id in found if parent_id])
                connection.execute(_DELETE, {"run_ids": [run_id for run_id, *_ in found]})
        finally:
            self._recent.forget(*run_ids)

    def _insert(self, connection: Connection, run: RunRecord) -> RecentRun:
        if SEQUENCE.first(connection, {"run_id": run.id}) is not None:
            raise AlreadyExists(f"There is already a run {run.id!r}.", hint="Choose another run id.")
        experiment_key, number = next_number(self._database, connection, run.workspace, run.experiment)
        new = as_stored(copy_with(run, number=number))
        row = row_of(new, WHOLE) | {"experiment_key": experiment_key}
        del row["sequence"]
        new = copy_with(new, sequence=_INSERT_RUN.insert(connection, row))
        _INSERT_DETAILS.change(connection, details_of(new, WHOLE) | {"run": new.sequence})
        _insert_labels(connection, new.sequence, label_digests(new.workspace, new.tags, new.properties))
        event = RunEvent(new.created_at, "status", new.status.value)
        _insert_event(connection, new.sequence, event)
        return RecentRun(new, (event,), has_no_uses=True)

    def _write(self, connection: Connection, current: RunRecord, changed: RunRecord) -> RunRecord | None:
        """Write the fields that differ, if the row still has the version of `current`; else None."""
        names = changed_fields(current, changed)
        written = copy_with(as_stored(changed, names), version=current.version + 1)
        guard = {"of_run": current.sequence, "of_id": current.id, "of_version": current.version}
        if not UPDATE_RUN.change(connection, row_of(written, [*names, "version"]) | guard):
            return None
        if details := details_of(written, names):
            UPDATE_DETAILS.change(connection, details | {"of_run": current.sequence})
        if current.tags is written.tags and current.properties is written.properties:
            return written
        before = label_digests(current.workspace, current.tags, current.properties)
        after = label_digests(written.workspace, written.tags, written.properties)
        _delete_labels(connection, current.sequence, before - after)
        _insert_labels(connection, current.sequence, after - before)
        return written


def _means_damage(error: Exception) -> bool:
    cause = error.__cause__ if isinstance(error, RunyardError) else error
    return isinstance(cause, Exception) and is_damage(cause)


def _insert_event(connection: Connection, sequence: int, event: RunEvent) -> None:
    row = {"run": sequence, "at": event.at, "kind": event.kind, "text": event.text}
    _INSERT_EVENT.change(connection, row)


def _insert_labels(connection: Connection, sequence: int, labels: set[bytes]) -> None:
    if labels:
        _INSERT_LABELS.insert_all(connection, [{"label": label, "run": sequence} for label in labels])


def _delete_labels(connection: Connection, sequence: int, labels: set[bytes]) -> None:
    if labels:
        of_run = run_labels.c.run == sequence
        connection.execute(delete(run_labels).where(of_run, run_labels.c.label.in_(labels)))


_LISTED_RUNS = select(*LISTED)
_REACHED = metrics.alias("reached")


_LISTED_BY = ("workspace", "experiment", "parent_id", "type", "created_by", "metric_above", "before", "limit")


def _listing_values(query: RunQuery) -> dict[str, Any]:
    """Values of `_prepared_listing`: the filters that are given. Not for filters by label or status."""
    _check_threshold(query)
    values = {name: value for name in _LISTED_BY if (value := getattr(query, name)) is not None}
    if query.order_by_metric is not None:
        values["name_key"] = index_key(query.order_by_metric)
    return values


@cache
def _prepared_listing(names: tuple[str, ...], include_children: bool, descending: bool) -> PreparedStatement:
    """The statement of `listing_query` for all queries with these filters."""
    given: dict[str, Any] = {name: bindparam(name) for name in names}
    name_key = given.pop("name_key", None)
    query = RunQuery(**given, include_children=include_children, descending=descending)
    return PreparedStatement(_newest_first(query) if name_key is None else _by_metric(query, name_key))


def listing_query(query: RunQuery) -> AnySelect:
    """One statement per listing, written so that one index yields the rows in order and LIMIT stops it early."""
    if query.order_by_metric is not None:
        return _by_metric(query, index_key(query.order_by_metric))
    _check_threshold(query)
    labels = _labels(query)
    return _by_label(query, labels) if labels else _newest_first(query)


def _check_threshold(query: RunQuery) -> None:
    if query.metric_above is not None and query.order_by_metric is None:
        raise InvalidArgument(
            f"metric_above={query.metric_above!r} needs order_by_metric too.", hint="Name the metric to compare."
        )


def _newest_first(query: RunQuery) -> AnySelect:
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


def _by_metric(query: RunQuery, name_key: Any) -> AnySelect:
    order = (metrics.c.last.desc(), metrics.c.run.desc()) if query.descending else (metrics.c.last, metrics.c.run)
    wanted = [_scope(query, metrics), metrics.c.name_key == name_key, metrics.c.last.isnot(None)]
    if query.metric_above is not None:
        wanted.append(metrics.c.last > query.metric_above)
    if query.before is not None:
        wanted.append(_after(query, name_key, query.before))
    found = _LISTED_RUNS.join_from(metrics, runs)
    found = found.where(*wanted, *map(_has_label, _labels(query)), *map(_unindexed, _filters(query)))
    return found.order_by(*order).limit(query.limit)


def _after(query: RunQuery, name_key: Any, sequence: int) -> ColumnElement[bool]:
    """Condition for the rows after the run of this sequence, the last one of the page before."""
    reached = _REACHED
    of_reached = and_(reached.c.run == sequence, reached.c.name_key == name_key, reached.c.last.isnot(None))
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
