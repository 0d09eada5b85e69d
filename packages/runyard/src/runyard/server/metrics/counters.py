"""Counters that request handlers and the controller increment. Rendering happens at a scrape, elsewhere."""

import threading
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Sequence

from runyard.core.records.runs import RunId, RunRecord

REQUEST_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
PHASE_BOUNDS = (0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0, 28800.0, 86400.0)
OTHER = "other"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_MAX_UNREAD = 10_000


class Histogram:
    """Counts of durations by upper bound, and their sum in seconds."""

    __slots__ = ("_bounds", "_counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds, self._counts, self.sum = bounds, [0] * (len(bounds) + 1), 0.0

    def add(self, seconds: float) -> None:
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self.sum += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """Cumulative buckets, as Prometheus has them: each bound with the number at or below it."""
        below, found = 0, []
        for bound, count in zip([*map(str, self._bounds), "+Inf"], self._counts, strict=True):
            below += count
            found.append((bound, float(below)))
        return found


class RequestCounters:
    """Answered requests by method, route template and status. Not thread-safe: call `note` from one thread."""

    def __init__(self) -> None:
        self._answers: Counter[tuple[str, str, int]] = Counter()
        self._seconds: dict[tuple[str, str], Histogram] = {}

    def note(self, method: str, route: str, status: int, seconds: float) -> None:
        if method not in _METHODS:  # a client may send any word
            method = OTHER
        self._answers[method, route, status] += 1
        histogram = self._seconds.get((method, route))
        if histogram is None:
            histogram = self._seconds[method, route] = Histogram(REQUEST_BOUNDS)
        histogram.add(seconds)

    def answers(self) -> list[tuple[tuple[str, str, int], int]]:
        return list(self._answers.items())

    def seconds(self) -> list[tuple[tuple[str, str], Histogram]]:
        return list(self._seconds.items())


class RunCounters:
    """Ends, phases and logged points of runs since the service started. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.points = 0
        self.ended: Counter[str] = Counter()
        self.phases: dict[str, Histogram] = {}
        self._unread: deque[RunId] = deque(maxlen=_MAX_UNREAD)

    def note_points(self, count: int) -> None:
        with self._lock:
            self.points += count

    def note_end(self, run: RunRecord) -> None:
        """Count the end of a run. Its phases are read at the next scrape; without one the oldest ends are dropped."""
        with self._lock:
            self.ended[run.status.value] += 1
            self._unread.append(run.id)

    def take_unread(self, most: int) -> list[RunId]:
        """Ended runs whose phases are not counted yet."""
        with self._lock:
            return [self._unread.popleft() for _ in range(min(most, len(self._unread)))]

    def put_back(self, run_ids: Sequence[RunId]) -> None:
        """Return runs whose phases could not be read."""
        with self._lock:
            self._unread.extend(run_ids)

    def note_phase(self, phase: str, seconds: float) -> None:
        self.phases.setdefault(phase, Histogram(PHASE_BOUNDS)).add(seconds)
