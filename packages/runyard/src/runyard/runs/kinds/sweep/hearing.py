from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

from runyard.model.metrics import MetricBatch, MetricKind, MetricSeries, as_number
from runyard.model.names import journal_rank
from runyard.model.runs import RunId
from runyard.ports.stores import MetricStore
from runyard.runs.history.journals import Delivered
from runyard.tuning.stopping.histories import Histories

_TRIES = 20


class Logged(NamedTuple):
    """What counts of a run's numbers, and the rank that logged them; None where none has."""

    rank: int | None
    points: Sequence["Point"]


class Point(NamedTuple):
    """One number, and when it was logged: never before the one before it."""

    at: float
    value: float


@dataclass
class _Child:
    rank: int | None = None
    """Whose numbers are its history."""
    offsets: dict[str, int] = field(default_factory=dict)
    is_current: bool = True
    """False where it has logged, perhaps, what we have not heard."""
    has_ended: bool = False


class Hearing:
    """What the trials of one sweep log of its primary metric.

    While a trial goes on the numbers of rank 0 count: those of another rank, which may come first, would decide on
    other trials for good and then not count. Where rank 0 has logged none by its end, those of the lowest rank that
    has do. All that is delivered counts once, however often and in which order it is heard of: where a stretch is
    missing the child's numbers are read anew. Not safe to share between threads.
    """

    def __init__(self, metric: str, histories: Histories, metrics: MetricStore) -> None:
        self.metric, self.histories, self._metrics = metric, histories, metrics
        self._children: dict[int, _Child] = {}

    def begin(self, number: int, rank: int | None) -> None:
        """The trial's history is what this rank has logged, as far as it was read."""
        self._children[number] = _Child(rank, is_current=False)

    def end(self, number: int) -> None:
        """Keep its history alone: where the trial logs again, look for what was not heard of."""
        self._children[number] = _Child(self.rank(number), is_current=False, has_ended=True)

    def rest(self, number: int, child_id: RunId) -> Sequence[float]:
        """Of a trial that has ended, what counts though it did not before; the caller adds it to the histories."""
        self.end(number)
        return self._read_anew(number, child_id) if self.rank(number) is None else ()

    def rank(self, number: int) -> int | None:
        """Whose numbers are the trial's history."""
        return self._children[number].rank if number in self._children else None

    def fresh(self, number: int, child_id: RunId, delivered: Delivered) -> Sequence[float]:
        """The numbers that are new by this; the caller adds them to the histories."""
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
        """Intervals that were heard before take the numbers stored for them; those beyond are new."""
        known = self._children[number]
        for _ in range(_TRIES):
            offsets = self._metrics.offsets(child_id)
            journals = [one for one in offsets if known.has_ended or journal_rank(one) == 0]
            rank, points = lowest_logged(self._metrics, child_id, self.metric, journals)
            is_current = self._metrics.offsets(child_id) == offsets
            if is_current:
                break
        history = self.histories.get(number)
        heard = len(history) if history else 0
        if rank != known.rank:
            self.histories.drop(number)
            for point in points[:heard]:
                self.histories.append(number, point.value)
        self._children[number] = _Child(rank, dict(offsets), is_current, known.has_ended)
        return [point.value for point in points[heard:]]


def lowest_logged(metrics: MetricStore, run_id: RunId, metric: str, journals: Sequence[str]) -> Logged:
    """The numbers of the lowest rank that has logged any, among these journals of the run."""
    for rank in sorted({journal_rank(journal) for journal in journals}):
        if points := points_of(metrics.series(run_id, metric, rank)):
            return Logged(rank, points)
    return Logged(None, ())


def points_of(several: Sequence[MetricSeries]) -> Sequence[Point]:
    """The numbers among the series of one name."""
    for series in several:
        if series.kind.family is MetricKind.SCALAR:
            times = accumulate(series.at, max)
            pairs = zip(times, map(as_number, series.values), strict=True)
            return [Point(at, value) for at, value in pairs if value is not None]
    return ()


def numbers_in(metric: str, batches: Sequence[MetricBatch]) -> Sequence[float]:
    numbers = [as_number(value) for batch in _named(metric, batches) for value in batch.values]
    return [number for number in numbers if number is not None]


def no_number_in(metric: str, batches: Sequence[MetricBatch]) -> Any:
    """The first value of that name that is none, as something to show; None where all are numbers."""
    for batch in batches:
        if batch.name == metric and batch.kind.family is not MetricKind.SCALAR:
            return batch.kind.value
    texts = (value for batch in _named(metric, batches) for value in batch.values if as_number(value) is None)
    return next((repr(value) for value in texts), None)


def _named(metric: str, batches: Sequence[MetricBatch]) -> Sequence[MetricBatch]:
    return [batch for batch in batches if batch.name == metric and batch.kind.family is MetricKind.SCALAR]
