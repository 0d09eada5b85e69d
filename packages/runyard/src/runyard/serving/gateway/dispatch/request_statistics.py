from collections import Counter
from typing import Any

_FINE_BITS = 3
_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_PERCENTS = {"p50": 0.50, "p90": 0.90, "p95": 0.95, "p99": 0.99}


class LatencyHistogram:
    """Histogram of durations. Bucket bounds grow by at most an eighth, so a few hundred counters are enough."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._longest = self._sum = 0.0

    def add(self, seconds: float) -> None:
        microseconds = int(seconds * 1e6)
        shift = microseconds.bit_length() - _FINE_BITS - 1
        if shift > 0:
            microseconds = (shift << _FINE_BITS) + (microseconds >> shift)
        self._counts[microseconds] += 1
        self._sum += seconds
        if seconds > self._longest:
            self._longest = seconds

    def merge(self, other: "LatencyHistogram") -> None:
        self._counts.update(other._counts)
        self._sum += other._sum
        self._longest = max(self._longest, other._longest)

    def milliseconds(self) -> dict[str, float]:
        """p50, p90, p95, p99 and max; empty before the first."""
        total = self._counts.total()
        if not total:
            return {}
        found: dict[str, float] = {}
        below, wanted = 0, list(_PERCENTS.items())
        for bucket in sorted(self._counts):
            below += self._counts[bucket]
            while wanted and below >= wanted[0][1] * total:
                found[wanted.pop(0)[0]] = round(min(_upper_end(bucket) / 1e3, self._longest * 1e3), 3)
        return {**found, "max": round(self._longest * 1e3, 3)}

    def figures(self) -> dict[str, Any]:
        """For Prometheus: count at or below each bound, exact to an eighth of it, and the sum."""
        ends = sorted((_upper_end(bucket) / 1e6, count) for bucket, count in self._counts.items())
        below, index, buckets = 0, 0, []
        for bound in _BOUNDS:
            while index < len(ends) and ends[index][0] <= bound:
                below += ends[index][1]
                index += 1
            buckets.append([str(bound), below])
        return {"buckets": [*buckets, ["+Inf", self._counts.total()]], "sum": self._sum}


class RequestStatistics:
    """Counts of answers by status, and their latency, since the gateway started."""

    def __init__(self) -> None:
        self._by_status: Counter[int] = Counter()
        self._latency = LatencyHistogram()

    def count(self, status: int) -> None:
        """Count an answer without latency: it never went to a worker."""
        self._by_status[status] += 1

    def scored(self, status: int, seconds: float) -> None:
        self._by_status[status] += 1
        self._latency.add(seconds)

    def merge(self, other: "RequestStatistics") -> None:
        self._by_status.update(other._by_status)
        self._latency.merge(other._latency)

    def summary(self) -> dict[str, Any]:
        return {
            "requests": {str(status): count for status, count in sorted(self._by_status.items())},
            "latency_ms": self._latency.milliseconds(),
        }

    def figures(self) -> dict[str, Any]:
        return {"requests": self.summary()["requests"], "seconds": self._latency.figures()}


def _upper_end(bucket: int) -> int:
    fine = 1 << _FINE_BITS
    if bucket < 2 * fine:
        return bucket
    shift = (bucket >> _FINE_BITS) - 1
    return ((bucket - (shift << _FINE_BITS) + 1) << shift) - 1
