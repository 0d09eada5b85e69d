from collections.abc import Sequence
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from time import perf_counter
from typing import Any

from runyard.errors import Unreachable

PER_MILLE = {"p50": 500, "p90": 900, "p95": 950, "p99": 990, "p99_9": 999}
ANSWER_SECONDS = 120.0
SHOWN_CHARACTERS = 500


@dataclass(frozen=True)
class Timed:
    milliseconds: Sequence[float]
    """Latencies of successful requests, in the order of sending."""
    failures: Sequence[str]
    seconds: float

    @property
    def count(self) -> int:
        return len(self.milliseconds) + len(self.failures)

    def latency(self) -> dict[str, float]:
        """Average, percentiles and maximum; empty when no request was successful."""
        ordered = sorted(self.milliseconds)
        if not ordered:
            return {}
        ranked = {name: ordered[_rank(share, len(ordered))] for name, share in PER_MILLE.items()}
        return {"average": sum(ordered) / len(ordered), **ranked, "max": ordered[-1]}


def send_in_turn(port: int, path: str, bodies: Sequence[bytes], *, least: int, within_seconds: float) -> Timed:
    """Send each body once, and repeat them until `least` requests are sent or the time is over.

    The first body is sent once before, unmeasured: libraries load code on first use. Raises Unreachable.
    """
    connection = HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS)
    milliseconds, failures = [], []
    try:
        _send(connection, path, bodies[0])
        began = perf_counter()
        for number in range(max(least, len(bodies))):
            if perf_counter() - began > within_seconds:
                break
            sent = perf_counter()
            status, answer = _send(connection, path, bodies[number % len(bodies)])
            took = (perf_counter() - sent) * 1000
            if status < 400:
                milliseconds.append(took)
            else:
                failures.append(f"{status}: {answer[:SHOWN_CHARACTERS].decode('utf-8', 'replace')}")
        return Timed(milliseconds, failures, perf_counter() - began)
    except (OSError, HTTPException) as error:
        raise Unreachable(f"The model did not answer: {error or type(error).__name__}.") from error
    finally:
        connection.close()


def _send(connection: HTTPConnection, path: str, body: bytes) -> tuple[int, Any]:
    connection.request("POST", path, body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    return answer.status, answer.read()


def _rank(per_mille: int, count: int) -> int:
    """Index of a percentile in a sorted list; in per mille, since a float cannot hold 99.9 exactly."""
    return max(0, -(-per_mille * count // 1000) - 1)
