from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import Column, Connection, Text, bindparam, cast, delete, func, select, type_coerce, update

from runyard.core.records.metrics import MetricKind
from runyard.core.records.runs import RunId, RunStatus
from runyard.core.records.sweeps import Goal, RankedTrial, Trial, TrialStop
from runyard.storage.sql.columns import AnyRow, AnySelect, from_json, index_key
from runyard.storage.sql.database import Database
from runyard.storage.sql.run_rows import run_key
from runyard.storage.sql.schema import metrics, runs, trials

_STATUS = {None: RunStatus.NOT_STARTED} | {status.value: status for status in RunStatus}
_OF_SWEEP = (
    select(*trials.c["number", "values", "resumed_from", "stop"])
    .join_from(trials, runs)
    .where(runs.c.id == bindparam("sweep_id"))
    .order_by(trials.c.number)
)
_SWEEPS = (
    select(*runs.c["sequence", "id"])
    .where(runs.c.id.in_(bindparam("sweep_ids", expanding=True)))
    .order_by(runs.c.sequence)
)
_IS_STOPPED = trials.c.stop.isnot(None)

# These statements join the trials of one sweep with their runs and one metric. They take the sweep's key as `sweep`, so
# that the database can estimate the number of rows, its id as `sweep_id`, and as `prefix` the beginning of its child
# ids: a trial's run is found by its id. A trial without a run has no status, even if an unrelated run has that id.
WITH_RUNS = trials.outerjoin(
    runs,
    (runs.c.id == bindparam("prefix", type_=Text) + cast(trials.c.number, Text))
    & (runs.c.parent_id == bindparam("sweep_id")),
)

_TALLY = (
    select(runs.c.status, _IS_STOPPED, func.count())
    .select_from(WITH_RUNS)
    .where(trials.c.sweep == bindparam("sweep"))
    .group_by(runs.c.status, _IS_STOPPED)
)
_CHILDREN = func.count(metrics.c.run.distinct())
_LOGGED = (
    select(metrics.c.name, _CHILDREN)
    .join_from(runs, metrics)
    .where(runs.c.parent_id == bindparam("sweep_id"))
    .group_by(metrics.c.name)
    .order_by(_CHILDREN.desc(), metrics.c.name)
)
_STOPPED = (
    update(trials)
    .where(
        trials.c.sweep == select(runs.c.sequence).where(runs.c.id == bindparam("sweep_id")).scalar_subquery(),
        trials.c.number == bindparam("of_number"),
        trials.c.stop.is_(None),
    )
    .values(stop=bindparam("why"))
)

_GONE = delete(trials).where(
    trials.c.sweep == select(runs.c.sequence).where(runs.c.id == bindparam("sweep_id")).scalar_subquery(),
    trials.c.number == bindparam("of_number"),
)


class SqlTrialStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, trials_: Sequence[Trial]) -> None:
        if not trials_:
            return
        statement = self._database.insert(trials).on_conflict_do_nothing()
        with self._database.write() as connection:
            keys = {sweep_id: run_key(connection, sweep_id) for sweep_id in {trial.sweep_id for trial in trials_}}
            connection.execute(statement, [_row(keys[trial.sweep_id], trial) for trial in trials_])

    def list(self, sweep_id: RunId) -> Sequence[Trial]:
        with self._database.read() as connection:
            found = connection.execute(_OF_SWEEP, {"sweep_id": sweep_id})
            return [
                Trial(sweep_id, number, values, resumed_from, _stop(stop))
                for number, values, resumed_from, stop in found
            ]

    def stop(self, sweep_id: RunId, number: int, stop: TrialStop) -> bool:
        with self._database.write() as connection:
            given = {"sweep_id": sweep_id, "of_number": number, "why": asdict(stop)}
            return connection.execute(_STOPPED, given).rowcount > 0

    def ranked(
        self,
        sweep_ids: Sequence[RunId],
        metric: str,
        goal: Goal,
        *,
        limit: int | None = None,
        leave_out: Collection[RunStatus] = (),
    ) -> Sequence[RankedTrial]:
        statement = ALL[goal] if limit is None else FIRST[goal].limit(limit)
        asked: dict[str, Any] = {"metric": index_key(metric)}
        if leave_out:
            statement, asked = statement.where(LEFT_OUT), {**asked, "left_out": [status.value for status in leave_out]}
        found: list[RankedTrial] = []
        with self._database.read() as connection:
            for sweep in _sweeps(connection, sweep_ids):
                rows = connection.execute(statement, asked | sweep).all()
                found += _ranked(sweep["prefix"], rows)
        return best_first(found, goal)[:limit]

    def tally(self, sweep_id: RunId) -> Mapping[tuple[RunStatus, bool], int]:
        counts: Counter[tuple[RunStatus, bool]] = Counter()
        with self._database.read() as connection:
            for sweep in _sweeps(connection, [sweep_id]):
                for status, is_stopped, count in connection.execute(_TALLY, sweep):
                    counts[_STATUS[status], bool(is_stopped)] += count
        return counts

    def logged(self, sweep_id: RunId) -> Mapping[str, int]:
        with self._database.read() as connection:
            found = connection.execute(_LOGGED, {"sweep_id": sweep_id})
            return {row[0]: row[1] for row in found}


def _sweeps(connection: Connection, sweep_ids: Sequence[RunId]) -> Sequence[dict[str, Any]]:
    """Parameters of the statements above for each existing sweep, oldest first."""
    found = connection.execute(_SWEEPS, {"sweep_ids": list(sweep_ids)})
    return [{"sweep": key, "sweep_id": sweep_id, "prefix": f"{sweep_id}_"} for key, sweep_id in found]


def delete_trials(connection: Connection, children: Sequence[tuple[str, str]]) -> None:
    """Delete the trials of these (parent, child) runs; ignores runs that are not children of a sweep."""
    ends = [(parent_id, child_id.removeprefix(f"{parent_id}_")) for parent_id, child_id in children]
    numbered = [(parent_id, int(end)) for parent_id, end in ends if end.isascii() and end.isdecimal() and len(end) < 10]
    if numbered:
        connection.execute(_GONE, [{"sweep_id": parent_id, "of_number": number} for parent_id, number in numbered])


def _row(sweep: int, trial: Trial) -> dict[str, Any]:
    return {
        "sweep": sweep,
        "number": trial.number,
        "values": dict(trial.values),
        "resumed_from": trial.resumed_from,
        "stop": None if trial.stop is None else asdict(trial.stop),
    }


def _stop(stored: dict[str, Any] | None) -> TrialStop | None:
    return None if stored is None else TrialStop(**stored)


def _ranked(prefix: str, rows: Sequence[AnyRow]) -> Sequence[RankedTrial]:
    return [
        RankedTrial(
            RunId(f"{prefix}{number}"),
            number,
            values,
            _STATUS[status],
            best,
            intervals,
            None if stop is None else _stop(from_json(stop)),
        )
        for number, values, status, best, intervals, stop in rows
    ]


_WITH_METRIC = WITH_RUNS.outerjoin(
    metrics,
    (metrics.c.run == runs.c.sequence)
    & (metrics.c.name_key == bindparam("metric"))
    & (metrics.c.family == MetricKind.SCALAR.value),
)


def best_first(found: list[RankedTrial], goal: Goal) -> list[RankedTrial]:
    """Sort by result; ties keep their order. A quarter faster than sorting such wide rows in the database."""
    with_number = [trial for trial in found if trial.best is not None]
    with_number.sort(key=lambda trial: trial.best or 0.0, reverse=goal is Goal.MAXIMIZE)
    return with_number + [trial for trial in found if trial.best is None]


def _best(goal: Goal) -> Column[float]:
    return metrics.c.scored_maximum if goal is Goal.MAXIMIZE else metrics.c.scored_minimum


def _joined(goal: Goal) -> AnySelect:
    """Rows without an order. The JSON of values and stop is not decoded."""
    columns = (
        trials.c.number,
        type_coerce(trials.c["values"], Text),
        runs.c.status,
        _best(goal),
        func.coalesce(metrics.c.scored_count, 0),
        type_coerce(trials.c.stop, Text),
    )
    return select(*columns).select_from(_WITH_METRIC).where(trials.c.sweep == bindparam("sweep"))


def _first(goal: Goal) -> AnySelect:
    order = _best(goal).desc() if goal is Goal.MAXIMIZE else _best(goal).asc()
    return _joined(goal).order_by(order.nulls_last(), trials.c.number)


ALL = {goal: _joined(goal).order_by(trials.c.number) for goal in Goal}
FIRST = {goal: _first(goal) for goal in Goal}
"""Query by goal that sorts in SQL, for use with a limit."""
LEFT_OUT = runs.c.status.is_(None) | runs.c.status.notin_(bindparam("left_out", expanding=True))
"""Condition: the run has none of the statuses `left_out`."""
