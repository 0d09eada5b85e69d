from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

from runyard.core.names import journal_rank
from runyard.core.ports.stores import MetricStore
from runyard.core.records.metrics import MetricBatch, MetricKind, MetricSeries, as_number
from runyard.core.records.runs import RunId
from runyard.runs.history.journals import Delivered
from runyard.runs.kinds.sweep.early_stopping.histories import Histories

_TRIES = 20


class LoggedNumbers(NamedTuple):
    """Numbers of a run that count, and the rank that logged them; None if there are none."""

    rank: int | None
    points: Sequence["LoggedPoint"]


class LoggedPoint(NamedTuple):
    """A number and the time it was logged; times never decrease."""

    at: float
    value: float


@dataclass
class _Child:
    rank: int | None = None
    """Rank whose numbers count."""
    offsets: dict[str, int] = field(default_factory=dict)
    is_current: bool = True
    """False if numbers may be stored that were not delivered to us."""
    has_ended: bool = False


class MetricListener:
    """Collects the numbers that the trials of one sweep log for its primary metric.

    While a trial is running only the numbers of rank 0 count: other ranks may log first, and a decision made on their
    numbers cannot be taken back. If rank 0 has logged none by the end of the trial, those of the lowest rank that has
    count. Each number counts once, even if pieces are delivered twice or out of order: if a piece is missing, the
    numbers of the child are read again. Not thread-safe.
    """

    def __init__(self, metric: str, histories: Histories, metrics: MetricStore) -> None:
        self.metric, self.histories, self._metrics = metric, histories, metrics
        self._children: dict[int, _Child] = {}

    def begin(self, number: int, rank: int | None) -> None:
        """Begin with a history that was read from the store; `rank` logged it."""
        self._children[number] = _Child(rank, is_current=False)

    def end(self, number: int) -> None:
        """Note the end of the trial. If it logs again, its numbers are read from the store."""
        self._children[number] = _Child(self.rank(number), is_current=False, has_ended=True)

    def rest(self, number: int, child_id: RunId) -> Sequence[float]:
        """Numbers of an ended trial that count only now; the caller adds them to the histories."""
        self.end(number)
        return self._read_anew(number, child_id) if self.rank(number) is None else ()

    def rank(self, number: int) -> int | None:
        """Rank whose numbers count for the trial."""
        return self._children[number].rank if number in self._children else None

    def fresh(self, number: int, child_id: RunId, delivered: Delivered) -> Sequence[float]:
        """New numbers in the delivered piece; the caller adds them to the histories."""
        child = self._children.setdefault(number, _Child())
        if delivered.rank > 0 and not child.has_ended:
            return ()
        known = child.offsets.get(delivered.journal, 0)
        if child.is_current and delivered.end <= known:
            return ()
        if not child.is_current or delivered.start != known:
            return self._read_anew(number, child_id)
        child.offsets[delivered.journal] = delivered.end
        numbers = numbers_in(self.metric, delivered.batches)
        if not numbers or (child.rank is not None and delivered.rank > child.rank):
            return ()
        if child.rank is not None and delivered.rank < child.rank:
            return self._read_anew(number, child_id)
        child.rank = delivered.rank
        return numbers

    def _read_anew(self, number: int, child_id: RunId) -> Sequence[float]:
        """Read all numbers from the store. Known intervals are replaced; the rest are returned as new."""
        known = self._children[number]
        for _ in range(_TRIES):
            offsets = self._metrics.offsets(child_id)
            journals = [one for one in offsets if known.has_ended or journal_rank(one) == 0]
            rank, points = lowest_logged(self._metrics, child_id, self.metric, journals)
            is_current = self._metrics.offsets(child_id) == offsets
            if is_current:
                break
        history = self.histories.get(number)
        count = len(history) if history else 0
        if rank != known.rank:
            self.histories.drop(number)
            for point in points[:count]:
                self.histories.append(number, point.value)
        self._children[number] = _Child(rank, dict(offsets), is_current, known.has_ended)
        return [point.value for point in points[count:]]


def lowest_logged(metrics: MetricStore, run_id: RunId, metric: str, journals: Sequence[str]) -> LoggedNumbers:
    """Numbers of the lowest rank that has logged any, among these journals of the run."""
    for rank in sorted({journal_rank(journal) for journal in journals}):
        if points := points_of(metrics.series(run_id, metric, rank)):
            return LoggedNumbers(rank, points)
    return LoggedNumbers(None, ())


def points_of(several: Sequence[MetricSeries]) -> Sequence[LoggedPoint]:
    """Numbers among the series of one metric name."""
    for series in several:
        if series.kind.family is MetricKind.SCALAR:
            times = accumulate(series.at, max)
            pairs = zip(times, map(as_number, series.values), strict=True)
            return [LoggedPoint(at, value) for at, value in pairs if value is not None]
    return ()


def numbers_in(metric: str, batches: Sequence[MetricBatch]) -> Sequence[float]:
    numbers = [as_number(value) for batch in _named(metric, batches) for value in batch.values]
    return [number for number in numbers if number is not None]


def first_non_number(metric: str, batches: Sequence[MetricBatch]) -> Any:
    """First value of the metric that is not a number, as text; None if all are numbers."""
    for batch in batches:
        if batch.name == metric and batch.kind.family is not MetricKind.SCALAR:
            return batch.kind.value
    texts = (value for batch in _named(metric, batches) for value in batch.values if as_number(value) is None)
    return next((repr(value) for value in texts), None)


def _named(metric: str, batches: Sequence[MetricBatch]) -> Sequence[MetricBatch]:
    return [batch for batch in batches if batch.name == metric and batch.kind.family is MetricKind.SCALAR]
