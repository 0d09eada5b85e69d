from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, and_, exists, or_, select, true

from runyard.errors import InvalidArgument
from runyard.model.runs import RunQuery
from runyard.stores.column_types import AnySelect
from runyard.stores.keys import index_key, label
from runyard.stores.run_rows import LISTED
from runyard.stores.schema import experiments, metrics, run_labels, runs

_LISTED_RUNS = select(*LISTED)
_REACHED = metrics.alias("reached")


def listing(query: RunQuery) -> AnySelect:
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
        *(label(query.workspace, "tag", *pair) for pair in query.tags.items()),
        *(label(query.workspace, "property", *pair) for pair in query.properties.items()),
    ]


def _has_label(digest: bytes) -> ColumnElement[bool]:
    other = run_labels.alias()
    return exists().where(other.c.label == digest, other.c.run == runs.c.sequence)
