from sqlalchemy import Column, Text, bindparam, cast, func, select, type_coerce

from runyard.model.metrics import MetricKind
from runyard.model.sweeps import Goal, RankedTrial
from runyard.stores.column_types import AnySelect
from runyard.stores.schema import metrics, runs, trials

# These statements join the trials of one sweep with their runs and one metric. They take the sweep's key as `sweep`, so
# that the database can estimate the number of rows, its id as `sweep_id`, and as `prefix` the beginning of its child
# ids: a trial's run is found by its id. A trial without a run has no status, even if an unrelated run has that id.
WITH_RUNS = trials.outerjoin(
    runs,
    (runs.c.id == bindparam("prefix", type_=Text) + cast(trials.c.number, Text))
    & (runs.c.parent_id == bindparam("sweep_id")),
)
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
"""For queries with a limit: sorted by the database."""
LEFT_OUT = runs.c.status.is_(None) | runs.c.status.notin_(bindparam("left_out", expanding=True))
"""Condition: the run has none of the statuses `left_out`."""
