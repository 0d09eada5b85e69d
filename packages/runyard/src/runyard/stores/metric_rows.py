from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import Connection, and_, bindparam, func, insert, select, update

from runyard.model.metrics import MetricBatch
from runyard.stores.column_types import AnyRow
from runyard.stores.database import Database
from runyard.stores.keys import index_key
from runyard.stores.number_summary import NumberSummary
from runyard.stores.packing import Chunk, joined, pack
from runyard.stores.schema import metric_chunks, metrics
from runyard.stores.scores import Score, summed_up_and_scored
from runyard.stores.upserts import upsert

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
        chunk, summary = joined(self.chunk, later.chunk), self.summary.then(later.summary)
        return PackedBatch(later.name, later.kind, chunk, summary, self.score.then(later.score))


def packed_batches(batches: Iterable[MetricBatch], rank: int) -> dict[MetricKey, PackedBatch]:
    packed: dict[MetricKey, PackedBatch] = {}
    for batch in batches:
        if not batch.values:
            continue
        key = index_key(batch.name), batch.kind.family.value
        chunk = pack(batch.values, batch.steps, batch.at, rank)
        new = PackedBatch(batch.name, batch.kind.value, chunk, *summed_up_and_scored(batch.values, rank))
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
        chunk = joined(last_chunk, batch.chunk) if last_chunk else batch.chunk
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
