from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, and_, bindparam, func, insert, select, update

from runyard.core.errors import Conflict
from runyard.core.records.metrics import MetricBatch, MetricKind, MetricSeries, MetricSummary
from runyard.core.records.runs import RunId
from runyard.storage.sql.columns import AnyRow, index_key
from runyard.storage.sql.database import Database, upsert
from runyard.storage.sql.metric_points import (
    Chunk,
    NumberSummary,
    Score,
    join_chunks,
    pack_points,
    summarize_batch,
    unpack_ranks,
    unpack_steps,
    unpack_times,
    unpack_values,
)
from runyard.storage.sql.run_rows import run_key, run_not_found
from runyard.storage.sql.schema import journals, metric_chunks, metrics, runs

_IDS_AT_ONCE = 500


class SqlMetricStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def append(
        self,
        run_id: RunId,
        journal: str,
        start: int,
        end: int,
        batches: Sequence[MetricBatch],
        dropped: int = 0,
        rank: int = 0,
        most_names: int | None = None,
    ) -> int:
        packed = pack_batches(batches, rank)
        counts = False
        try:
            with self._database.write() as connection:
                run = _locked_run(connection, run_id)
                if not self._advance(connection, run.sequence, journal, start, end):
                    return 0
                left_out = add_points(self._database, connection, run, packed, most_names) if packed else 0
                counts = dropped + left_out > 0
                if counts:
                    counted = {"dropped_points": runs.c.dropped_points + dropped + left_out}
                    connection.execute(update(runs).where(runs.c.sequence == run.sequence).values(counted))
                return left_out
        finally:
            if counts:
                self._database.recent_runs.forget(run_id)

    def offset(self, run_id: RunId, journal: str) -> int:
        return self.offsets(run_id).get(journal, 0)

    def offsets(self, run_id: RunId) -> Mapping[str, int]:
        with self._database.read() as connection:
            of_run = journals.c.run == run_key(connection, run_id)
            return {row.journal: row.offset for row in connection.execute(select(journals).where(of_run))}

    def series(self, run_id: RunId, name: str | None = None, rank: int | None = None) -> Sequence[MetricSeries]:
        with self._database.read() as connection:
            query = select(*metrics.c["key", "name", "kind"], *CHUNK).join_from(metrics, metric_chunks)
            query = query.where(metrics.c.run == run_key(connection, run_id))
            if name is not None:
                query = query.where(metrics.c.name_key == index_key(name))
            rows = connection.execute(query.order_by(metrics.c.key, metric_chunks.c.part)).all()
        return [series for _, series in _several(rows, rank)]

    def series_of(
        self, run_ids: Sequence[RunId], name: str | None = None, rank: int | None = None
    ) -> Mapping[RunId, Sequence[MetricSeries]]:
        found: dict[RunId, list[MetricSeries]] = {run_id: [] for run_id in run_ids}
        query = (
            select(*metrics.c["key", "name", "kind"], *CHUNK, runs.c.id).join_from(runs, metrics).join(metric_chunks)
        )
        if name is not None:
            query = query.where(metrics.c.name_key == index_key(name))
        query = query.order_by(metrics.c.key, metric_chunks.c.part)
        with self._database.read() as connection:
            for some in _batched(run_ids):
                rows = connection.execute(query.where(runs.c.id.in_(some))).all()
                for row, series in _several(rows, rank):
                    found[row.id].append(series)
        return found

    def series_page(
        self,
        run_ids: Sequence[RunId],
        name: str | None = None,
        rank: int | None = None,
        *,
        after: int = 0,
        limit: int,
    ) -> tuple[Mapping[RunId, Sequence[MetricSeries]], int | None]:
        found: dict[RunId, list[MetricSeries]] = {run_id: [] for run_id in run_ids}
        query = select(*metrics.c["key", "name", "kind"], *CHUNK, runs.c.id).join_from(runs, metrics)
        query = query.join(metric_chunks).order_by(metrics.c.key, metric_chunks.c.part)
        with self._database.read() as connection:
            keys = _keys_after(connection, run_ids, name, after, limit + 1)
            for start in range(0, len(keys[:limit]), _IDS_AT_ONCE):
                some = keys[start : min(start + _IDS_AT_ONCE, limit)]
                for row, series in _several(connection.execute(query.where(metrics.c.key.in_(some))).all(), rank):
                    found[row.id].append(series)
        return found, keys[limit - 1] if len(keys) > limit else None

    def summaries(self, run_ids: Sequence[RunId]) -> Mapping[RunId, Sequence[MetricSummary]]:
        columns = metrics.c["name", "kind", "count", "last", "minimum", "maximum"]
        query = select(runs.c.id, *columns).join_from(runs, metrics).order_by(metrics.c.key)
        found: dict[RunId, list[MetricSummary]] = {run_id: [] for run_id in run_ids}
        with self._database.read() as connection:
            for some in _batched(run_ids):
                for run_id, name, kind, *numbers in connection.execute(query.where(runs.c.id.in_(some))):
                    found[run_id].append(MetricSummary(name, MetricKind(kind), *numbers))
        return found

    def _advance(self, connection: Connection, run: int, journal: str, start: int, end: int) -> bool:
        """Advance the journal from `start` to `end`; False if it is already there. Raises Conflict otherwise.

        The caller has locked the run, so no other delivery can come in between.
        """
        of_journal = (journals.c.run == run, journals.c.journal == journal)
        stored = connection.execute(select(journals.c.offset).where(*of_journal)).scalar() or 0
        if stored >= end:
            return False
        if stored != start:
            raise Conflict(
                f"Journal {journal!r} is stored up to byte {stored}; bytes {start} to {end} do not follow.",
                hint=f"Send it from byte {stored}.",
                offset=stored,
            )
        row = {"run": run, "journal": journal, "offset": end}
        upsert = self._database.insert(journals).values(row)
        connection.execute(upsert.on_conflict_do_update(index_elements=["run", "journal"], set_={"offset": end}))
        return True


def _locked_run(connection: Connection, run_id: RunId) -> AnyRow:
    query = select(*runs.c["sequence", "workspace", "experiment_key"]).where(runs.c.id == run_id)
    run = connection.execute(query.with_for_update(key_share=True)).first()
    if run is None:
        raise run_not_found(run_id)
    return run


def _keys_after(
    connection: Connection, run_ids: Sequence[RunId], name: str | None, after: int, count: int
) -> Sequence[int]:
    """The lowest metric keys above `after` of these runs."""
    query = select(metrics.c.key).join_from(runs, metrics).where(metrics.c.key > after)
    if name is not None:
        query = query.where(metrics.c.name_key == index_key(name))
    query = query.order_by(metrics.c.key).limit(count)
    keys: list[int] = []
    for some in _batched(run_ids):
        keys += connection.execute(query.where(runs.c.id.in_(some))).scalars()
    return sorted(keys)[:count]


def _batched(run_ids: Sequence[RunId]) -> Iterator[Sequence[RunId]]:
    for start in range(0, len(run_ids), _IDS_AT_ONCE):
        yield run_ids[start : start + _IDS_AT_ONCE]


def _several(rows: Sequence[AnyRow], rank: int | None) -> Iterator[tuple[AnyRow, MetricSeries]]:
    """Each metric that has points of the rank, with its first row."""
    for _, of_metric in groupby(rows, lambda row: row.key):
        chunks = list(of_metric)
        series = _series(chunks[0].name, chunks[0].kind, chunks, rank)
        if series.values:
            yield chunks[0], series


def _series(name: str, kind: str, rows: Sequence[AnyRow], rank: int | None) -> MetricSeries:
    chunks = [Chunk(*row[3:9]) for row in rows]
    type_, values = unpack_values(chunks)
    steps, at, ranks = unpack_steps(chunks), unpack_times(chunks), unpack_ranks(chunks)
    chosen = _selected_points(at, ranks, rank)
    if chosen is not None:
        values = [values[place] for place in chosen]
        steps, at = [steps[place] for place in chosen], [at[place] for place in chosen]
    return MetricSeries(name, MetricKind(kind), type_, values, steps, at)


def _selected_points(at: Sequence[float], ranks: Sequence[int] | None, rank: int | None) -> Sequence[int] | None:
    """Indices of the points to return, in order; None for all as they arrived."""
    if ranks is None:
        return None if not rank else []
    if rank is not None:
        return [place for place, one in enumerate(ranks) if one == rank]
    return sorted(range(len(at)), key=at.__getitem__)


_CHUNK_NAMES = ("type", "count", "values", "steps", "at", "ranks")
CHUNK = metric_chunks.c[_CHUNK_NAMES]
_SMALL = 512
"""The next batch is appended to a chunk below this many points: slow logging makes few rows and rewrites little."""
_NAMES_AT_ONCE = 500
_SCORE = tuple(field.name for field in fields(Score))
_GROWING = ("last_part", "count", "last", "minimum", "maximum", *_SCORE)
# Built once, because every delivery uses them: new statements leave objects that only the garbage collector frees.
_GROW = update(metrics).where(metrics.c.key == bindparam("metric")).values({name: bindparam(name) for name in _GROWING})
_SMALL_CHUNKS = (
    select(metrics.c.key, *CHUNK)
    .join_from(
        metrics,
        metric_chunks,
        and_(metric_chunks.c.metric == metrics.c.key, metric_chunks.c.part == metrics.c.last_part),
    )
    .where(metric_chunks.c.count < _SMALL, metrics.c.key.in_(bindparam("keys", expanding=True)))
)
# Labelled, because `count` of a row is the method of tuples.
_STORED = select(metrics, metrics.c.count.label("total")).where(metrics.c.run == bindparam("of_run"))
_STORED_NAMES = _STORED.where(metrics.c.name_key.in_(bindparam("names", type_=metrics.c.name_key.type, expanding=True)))

MetricKey = tuple[str, str]
"""Indexed name, and family."""


@dataclass(frozen=True)
class PackedBatch:
    name: str
    kind: str
    chunk: Chunk
    summary: NumberSummary
    score: Score

    def then(self, later: "PackedBatch") -> "PackedBatch":
        chunk, summary = join_chunks(self.chunk, later.chunk), self.summary.then(later.summary)
        return PackedBatch(later.name, later.kind, chunk, summary, self.score.then(later.score))


def pack_batches(batches: Iterable[MetricBatch], rank: int) -> dict[MetricKey, PackedBatch]:
    packed: dict[MetricKey, PackedBatch] = {}
    for batch in batches:
        if not batch.values:
            continue
        key = index_key(batch.name), batch.kind.family.value
        chunk = pack_points(batch.values, batch.steps, batch.at, rank)
        new = PackedBatch(batch.name, batch.kind.value, chunk, *summarize_batch(batch.values, rank))
        packed[key] = packed[key].then(new) if key in packed else new
    return packed


def add_points(
    database: Database,
    connection: Connection,
    run: AnyRow,
    batches: Mapping[MetricKey, PackedBatch],
    most_names: int | None = None,
) -> int:
    """Store points in a few statements, however many metrics there are.

    Returns the number of points that were skipped because the run already has `most_names` metrics.
    """
    stored = _ensured(connection, run, batches, most_names)
    left_out = sum(batch.chunk.count for key, batch in batches.items() if key not in stored)
    batches = {key: batch for key, batch in batches.items() if key in stored}
    if not batches:
        return left_out
    small = _small_chunks(connection, [row.key for row in stored.values() if row.last_part >= 0])
    chunks: list[dict[str, Any]] = []
    summaries: list[dict[str, Any]] = []
    for key, batch in batches.items():
        metric = stored[key]
        last_chunk = small.get(metric.key)
        part = metric.last_part if last_chunk else metric.last_part + 1
        chunk = join_chunks(last_chunk, batch.chunk) if last_chunk else batch.chunk
        chunks.append({"metric": metric.key, "part": part, **vars(chunk)})
        summary = NumberSummary(metric.last, metric.minimum, metric.maximum).then(batch.summary)
        scored = Score(*(getattr(metric, name) for name in _SCORE)).then(batch.score)
        total = metric.total + batch.chunk.count
        summaries.append({"metric": metric.key, "last_part": part, "count": total, **vars(summary), **vars(scored)})
    connection.execute(upsert(database.insert, metric_chunks, ("metric", "part"), _CHUNK_NAMES), chunks)
    connection.execute(_GROW, summaries)
    return left_out


def _ensured(
    connection: Connection, run: AnyRow, batches: Mapping[MetricKey, PackedBatch], most_names: int | None
) -> dict[MetricKey, AnyRow]:
    """Stored row of every metric of the batch; creates rows of new metrics up to `most_names`."""
    found = _stored(connection, run.sequence, batches)
    new = [_new_row(run, key, batch) for key, batch in batches.items() if key not in found]
    if new and most_names is not None:
        known = connection.execute(select(func.count()).where(metrics.c.run == run.sequence)).scalar_one()
        new = new[: max(0, most_names - known)]
    if not new:
        return found
    connection.execute(insert(metrics), new)
    return _stored(connection, run.sequence, batches)


def _new_row(run: AnyRow, key: MetricKey, batch: PackedBatch) -> dict[str, Any]:
    return {
        "run": run.sequence,
        "workspace": run.workspace,
        "experiment_key": run.experiment_key,
        "name_key": key[0],
        "family": key[1],
        "name": batch.name,
        "kind": batch.kind,
        "last_part": -1,
        "count": 0,
    }


def _stored(connection: Connection, run: int, wanted: Mapping[MetricKey, Any]) -> dict[MetricKey, AnyRow]:
    if len(wanted) <= _NAMES_AT_ONCE:
        names = list({name_key for name_key, _ in wanted})
        rows = connection.execute(_STORED_NAMES, {"of_run": run, "names": names})
    else:
        rows = connection.execute(_STORED, {"of_run": run})
    return {(row.name_key, row.family): row for row in rows}


def _small_chunks(connection: Connection, keys: Sequence[int]) -> dict[int, Chunk]:
    """Last chunk of each metric that is small enough to append to."""
    found: dict[int, Chunk] = {}
    for start in range(0, len(keys), _NAMES_AT_ONCE):
        rows = connection.execute(_SMALL_CHUNKS, {"keys": keys[start : start + _NAMES_AT_ONCE]})
        found.update((row[0], Chunk(*row[1:])) for row in rows)
    return found
