from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select, update

from runyard.model.metrics import MetricKind, MetricPoint, MetricSeries, MetricSummary
from runyard.model.runs import RunId
from runyard.stores.column_types import AnyRow
from runyard.stores.database import Database
from runyard.stores.keys import index_key
from runyard.stores.metric_batches import MetricBatch, MetricKey, NumberSummary, by_metric, summed_up
from runyard.stores.packing import Chunk, joined, pack, unpack_steps, unpack_times, unpack_values
from runyard.stores.run_rows import run_key, run_not_found
from runyard.stores.schema import journals, metric_chunks, metrics, runs

_SMALL = 512
"""A chunk below this many points takes the next batch in: a trickle makes no row per point and rewrites little."""
_MANY = 500
_CHUNK = metric_chunks.c["type", "count", "values", "steps", "at"]


class SqlMetricStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def append(
        self, run_id: RunId, journal: str, end_offset: int, points: Sequence[MetricPoint], dropped: int = 0
    ) -> None:
        batches = by_metric(points)
        packed = {key: (pack(b.values, b.steps, b.at), summed_up(b.values)) for key, b in batches.items()}
        with self._database.write() as connection:
            run = _locked_run(connection, run_id)
            if not self._advance(connection, run.sequence, journal, end_offset):
                return
            if dropped:
                counted = {"dropped_points": runs.c.dropped_points + dropped}
                connection.execute(update(runs).where(runs.c.sequence == run.sequence).values(counted))
            if not batches:
                return
            stored = _ensured(connection, run, batches)
            small = _small_chunks(connection, stored.values())
            self._add(connection, [(stored[key], small.get(stored[key].key), *new) for key, new in packed.items()])

    def offset(self, run_id: RunId, journal: str) -> int:
        return self.offsets(run_id).get(journal, 0)

    def offsets(self, run_id: RunId) -> Mapping[str, int]:
        with self._database.read() as connection:
            of_run = journals.c.run == run_key(connection, run_id)
            return {row.journal: row.offset for row in connection.execute(select(journals).where(of_run))}

    def series(self, run_id: RunId, name: str | None = None) -> Sequence[MetricSeries]:
        with self._database.read() as connection:
            query = select(*metrics.c["key", "name", "kind"], *_CHUNK).join_from(metrics, metric_chunks)
            query = query.where(metrics.c.run == run_key(connection, run_id))
            if name is not None:
                query = query.where(metrics.c.name_key == index_key(name))
            rows = connection.execute(query.order_by(metrics.c.key, metric_chunks.c.part)).all()
        return [_series(name, kind, list(found)) for (_, name, kind), found in groupby(rows, lambda row: row[:3])]

    def summaries(self, run_ids: Sequence[RunId]) -> Mapping[RunId, Sequence[MetricSummary]]:
        columns = metrics.c["name", "kind", "count", "last", "minimum", "maximum"]
        query = select(runs.c.id, *columns).join_from(runs, metrics).order_by(metrics.c.key)
        found: dict[RunId, list[MetricSummary]] = {run_id: [] for run_id in run_ids}
        with self._database.read() as connection:
            for start in range(0, len(run_ids), _MANY):
                wanted = runs.c.id.in_(run_ids[start : start + _MANY])
                for run_id, name, kind, *numbers in connection.execute(query.where(wanted)):
                    found[run_id].append(MetricSummary(name, MetricKind(kind), *numbers))
        return found

    def _advance(self, connection: Connection, run: int, journal: str, end_offset: int) -> bool:
        """Whether this batch is news; if so, the journal now stands at its end."""
        of_journal = (journals.c.run == run, journals.c.journal == journal)
        if (connection.execute(select(journals.c.offset).where(*of_journal)).scalar() or 0) >= end_offset:
            return False
        row = {"run": run, "journal": journal, "offset": end_offset}
        upsert = self._database.insert(journals).values(row)
        connection.execute(upsert.on_conflict_do_update(index_elements=["run", "journal"], set_={"offset": end_offset}))
        return True

    def _add(
        self, connection: Connection, additions: Sequence[tuple[AnyRow, Chunk | None, Chunk, NumberSummary]]
    ) -> None:
        chunks, summaries = [], []
        for metric, last_chunk, new, summary in additions:
            part = metric.last_part + (last_chunk is None)
            chunk = new if last_chunk is None else joined(last_chunk, new)
            chunks.append({"metric": metric.key, "part": part} | asdict(chunk))
            total = NumberSummary(metric.last, metric.minimum, metric.maximum).then(summary)
            grown = {"metric": metric.key, "last_part": part, "count": metric.total + new.count}
            summaries.append(grown | asdict(total))
        statement = self._database.insert(metric_chunks)
        replaced = {c.name: statement.excluded[c.name] for c in _CHUNK}
        connection.execute(statement.on_conflict_do_update(index_elements=["metric", "part"], set_=replaced), chunks)
        values: dict[str, Any] = {
            name: bindparam(name) for name in ("last_part", "count", "last", "minimum", "maximum")
        }
        connection.execute(update(metrics).where(metrics.c.key == bindparam("metric")).values(values), summaries)


def _locked_run(connection: Connection, run_id: RunId) -> AnyRow:
    query = select(*runs.c["sequence", "workspace", "experiment_key"]).where(runs.c.id == run_id)
    run = connection.execute(query.with_for_update(key_share=True)).first()
    if run is None:
        raise run_not_found(run_id)
    return run


def _ensured(connection: Connection, run: AnyRow, batches: Mapping[MetricKey, MetricBatch]) -> dict[MetricKey, AnyRow]:
    """The stored row of every metric of the batch, made where it is new."""
    found = _stored(connection, run.sequence, batches)
    new = [
        {
            "run": run.sequence,
            "workspace": run.workspace,
            "experiment_key": run.experiment_key,
            "name_key": name_key,
            "family": family,
            "name": batch.name,
            "kind": batch.kind.value,
            "last_part": -1,
            "count": 0,
        }
        for (name_key, family), batch in batches.items()
        if (name_key, family) not in found
    ]
    if not new:
        return found
    connection.execute(insert(metrics), new)
    return _stored(connection, run.sequence, batches)


def _stored(connection: Connection, run: int, wanted: Mapping[MetricKey, Any]) -> dict[MetricKey, AnyRow]:
    query = select(metrics, metrics.c.count.label("total")).where(metrics.c.run == run)
    if len(wanted) <= _MANY:
        query = query.where(metrics.c.name_key.in_({name_key for name_key, _ in wanted}))
    return {(row.name_key, row.family): row for row in connection.execute(query)}


def _small_chunks(connection: Connection, stored: Iterable[AnyRow]) -> dict[int, Chunk]:
    """The last chunk of each metric, where it is small enough to be added to."""
    found: dict[int, Chunk] = {}
    begun = [row.key for row in stored if row.last_part >= 0]
    is_last = (metric_chunks.c.metric == metrics.c.key) & (metric_chunks.c.part == metrics.c.last_part)
    query = select(metrics.c.key, *_CHUNK).join_from(metrics, metric_chunks, is_last)
    query = query.where(metric_chunks.c.count < _SMALL)
    for start in range(0, len(begun), _MANY):
        rows = connection.execute(query.where(metrics.c.key.in_(begun[start : start + _MANY])))
        found.update((row[0], Chunk(*row[1:])) for row in rows)
    return found


def _series(name: str, kind: str, rows: Sequence[AnyRow]) -> MetricSeries:
    chunks = [Chunk(*row[3:]) for row in rows]
    type_, values = unpack_values(chunks)
    return MetricSeries(name, MetricKind(kind), type_, values, unpack_steps(chunks), unpack_times(chunks))
