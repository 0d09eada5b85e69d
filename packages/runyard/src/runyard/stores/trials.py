from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import Column, Text, bindparam, cast, func, select, type_coerce, update

from runyard.model.metrics import MetricKind
from runyard.model.runs import RunId, RunStatus
from runyard.model.sweeps import Goal, RankedTrial, Stop, Trial
from runyard.stores.column_types import AnyRow, AnySelect, from_json
from runyard.stores.database import Database
from runyard.stores.keys import index_key
from runyard.stores.run_rows import run_key
from runyard.stores.schema import metrics, runs, trials

_STATUS = {None: RunStatus.NOT_STARTED} | {status.value: status for status in RunStatus}
_sweeps = runs.alias("sweeps")
_OF_SWEEP = (
    select(*trials.c["number", "values", "resumed_from", "stop"])
    .join_from(trials, runs)
    .where(runs.c.id == bindparam("sweep_id"))
    .order_by(trials.c.number)
)
# The index on ids finds each run; a run that is not made yet has no status.
_child_id = _sweeps.c.id + "_" + cast(trials.c.number, Text)
_OF_SWEEPS = trials.join(_sweeps, trials.c.sweep == _sweeps.c.sequence).outerjoin(runs, runs.c.id == _child_id)
_TALLY = (
    select(runs.c.status, trials.c.stop.isnot(None), func.count())
    .select_from(_OF_SWEEPS)
    .where(_sweeps.c.id == bindparam("sweep_id"))
    .group_by(runs.c.status, trials.c.stop.isnot(None))
)
_LOGGED = (
    select(metrics.c.name, func.count(metrics.c.run.distinct()))
    .join_from(runs, metrics)
    .where(runs.c.parent_id == bindparam("sweep_id"))
    .group_by(metrics.c.name)
    .order_by(func.count(metrics.c.run.distinct()).desc(), metrics.c.name)
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

    def stop(self, sweep_id: RunId, number: int, stop: Stop) -> bool:
        with self._database.write() as connection:
            given = {"sweep_id": sweep_id, "of_number": number, "why": asdict(stop)}
            return connection.execute(_STOPPED, given).rowcount > 0

    def ranked(
        self, sweep_ids: Sequence[RunId], metric: str, goal: Goal, *, limit: int | None = None
    ) -> Sequence[RankedTrial]:
        asked = {"sweep_ids": list(sweep_ids), "metric": index_key(metric)}
        with self._database.read() as connection:
            if limit is not None:
                return [_ranked(row) for row in connection.execute(_FIRST[goal], asked | {"limit": limit})]
            rows = connection.execute(_ALL[goal], asked).all()
        return _best_first([_ranked(row) for row in rows], goal)

    def tally(self, sweep_id: RunId) -> Mapping[tuple[RunStatus, bool], int]:
        counts: Counter[tuple[RunStatus, bool]] = Counter()
        with self._database.read() as connection:
            for status, is_stopped, count in connection.execute(_TALLY, {"sweep_id": sweep_id}):
                counts[_STATUS[status], bool(is_stopped)] += count
        return counts

    def logged(self, sweep_id: RunId) -> Mapping[str, int]:
        with self._database.read() as connection:
            found = connection.execute(_LOGGED, {"sweep_id": sweep_id})
            return {row[0]: row[1] for row in found}


def _best(goal: Goal) -> Column[float]:
    return metrics.c.scored_maximum if goal is Goal.MAXIMIZE else metrics.c.scored_minimum


def _ranking(goal: Goal) -> AnySelect:
    """Joined by indexes alone: a sweep's trials, each one's run, of each run the one metric. In no order."""
    of_child = (metrics.c.run == runs.c.sequence) & (metrics.c.name_key == bindparam("metric"))
    numbers = metrics.c.family == MetricKind.SCALAR.value
    columns = (
        _child_id,
        trials.c.number,
        type_coerce(trials.c["values"], Text),
        runs.c.status,
        _best(goal),
        func.coalesce(metrics.c.scored_count, 0),
        type_coerce(trials.c.stop, Text),
    )
    joined = select(*columns).select_from(_OF_SWEEPS.outerjoin(metrics, of_child & numbers))
    return joined.where(_sweeps.c.id.in_(bindparam("sweep_ids", expanding=True)))


def _first(goal: Goal) -> AnySelect:
    order = _best(goal).desc() if goal is Goal.MAXIMIZE else _best(goal).asc()
    return _ranking(goal).order_by(order.nulls_last(), *_BY_NUMBER).limit(bindparam("limit"))


_BY_NUMBER = (trials.c.sweep, trials.c.number)
_FIRST = {goal: _first(goal) for goal in Goal}
_ALL = {goal: _ranking(goal).order_by(*_BY_NUMBER) for goal in Goal}


def _best_first(found: list[RankedTrial], goal: Goal) -> list[RankedTrial]:
    """Quicker by a quarter than to have the database sort such wide rows."""
    with_number = [trial for trial in found if trial.best is not None]
    with_number.sort(key=lambda trial: trial.best or 0.0, reverse=goal is Goal.MAXIMIZE)
    return with_number + [trial for trial in found if trial.best is None]


def _row(sweep: int, trial: Trial) -> dict[str, Any]:
    stop = None if trial.stop is None else asdict(trial.stop)
    values = dict(trial.values)
    return {
        "sweep": sweep,
        "number": trial.number,
        "values": values,
        "resumed_from": trial.resumed_from,
        "stop": stop,
    }


def _stop(stored: dict[str, Any] | None) -> Stop | None:
    return None if stored is None else Stop(**stored)


def _ranked(row: AnyRow) -> RankedTrial:
    run_id, number, values, status, best, intervals, stop = row
    why = None if stop is None else _stop(from_json(stop))
    return RankedTrial(run_id, number, values, _STATUS[status], best, intervals, why)
