"""Metrics of the service for Prometheus, and its readiness for probes."""

import asyncio
import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from itertools import pairwise
from pathlib import Path
from typing import Generic, TypeVar

from runyard.core.definitions.fields import JsonObject
from runyard.core.errors import StandingBy
from runyard.core.policy import SERVICE_ITSELF, Action, require
from runyard.core.principal import Principal
from runyard.core.records.runs import RunStatus
from runyard.server.metrics.counters import RequestCounters, RunCounters
from runyard.storage.sql.database import Database
from runyard.storage.sql.statistics import RunTally, count_runs, database_bytes, ping, status_events

GatewayMetrics = Callable[[], Sequence[JsonObject] | None]
"""Counts of each web service; None while the gateway does not answer, empty without web services."""
_KEEP_SECONDS, _TIMEOUT_SECONDS = 2.0, 3.0
_ENDED_AT_ONCE = 2000
_ENDS = frozenset(status.value for status in RunStatus if status.is_terminal)
log = logging.getLogger(__name__)


class ServerMetrics:
    """Values of a scrape. Each is read in a thread and kept for some seconds, so that scrapes cost little."""

    def __init__(self, database: Database, home: Path, runs: RunCounters, gateway: GatewayMetrics, least: int) -> None:
        """`least` is the number of free bytes below which the service is not ready."""
        self.database, self.home, self.runs = database, home, runs
        self.readiness = Readiness(database, home, least)
        self.errors: Counter[str] = Counter()
        """Number of failures by part of the scrape."""
        self._tally = CachedValue(lambda: count_runs(database), _KEEP_SECONDS)
        self._ping = CachedValue(lambda: ping(database), _KEEP_SECONDS)
        self._size = CachedValue(lambda: database_bytes(database), _KEEP_SECONDS)
        self._phases = CachedValue(self._read_phases, _KEEP_SECONDS)
        self._gateway = CachedValue(gateway, _KEEP_SECONDS)
        self._scraping = threading.Lock()

    def scrape(self, who: Principal, requests: RequestCounters) -> bytes:
        """The Prometheus text. A part that cannot be read is left out and counted. Raises Forbidden."""
        require(who, Action.READ_FIGURES, SERVICE_ITSELF)
        from runyard.server.metrics.prometheus import render_prometheus  # prometheus_client is slow to import

        with self._scraping:
            return render_prometheus(self, requests)

    def tally(self) -> RunTally:
        return self._tally.get(_TIMEOUT_SECONDS)

    def ping_seconds(self) -> float:
        return self._ping.get(_TIMEOUT_SECONDS)

    def database_bytes(self) -> int:
        return self._size.get(_TIMEOUT_SECONDS)

    def web_services(self) -> Sequence[JsonObject] | None:
        return self._gateway.get(_TIMEOUT_SECONDS)

    def disk_bytes(self) -> tuple[int, int]:
        """(free, total) of the disk of the home."""
        disk = os.statvfs(self.home)
        return disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize

    def count_phases(self) -> None:
        """Count the phases of runs that ended since the last scrape."""
        self._phases.get(_TIMEOUT_SECONDS)

    def failed(self, part: str, problem: Exception) -> None:
        """Count a part that was left out; only its first failure is logged."""
        self.errors[part] += 1
        if self.errors[part] == 1:
            log.warning("A scrape left out %s: %s: %s", part, type(problem).__name__, problem)

    def _read_phases(self) -> None:
        ended = self.runs.take_unread(_ENDED_AT_ONCE)
        try:
            found = status_events(self.database, ended)
        except Exception:
            self.runs.put_back(ended)
            raise
        for events in found.values():
            for here, after in pairwise(events):
                if here.text not in _ENDS:
                    self.runs.note_phase(here.text, max(0.0, (after.at - here.at).total_seconds()))


DATABASE_UNREACHABLE, STANDING_BY, DISK_FULL = "database unreachable", "standing by", "disk full"
_PROBE_KEEP_SECONDS, _PROBE_TIMEOUT_SECONDS = 1.0, 3.0


class Readiness:
    """Whether the service can work. Reads database and disk at most once a second, however many probes come."""

    def __init__(self, database: Database, home: Path, least_free_bytes: int) -> None:
        self._home, self._least = home, least_free_bytes
        self._ping = CachedValue(lambda: ping(database), _PROBE_KEEP_SECONDS)

    async def why_not(self) -> str:
        """Reason why the service is not ready; "" when it is."""
        try:
            answer = asyncio.wrap_future(self._ping.ask())
            await asyncio.wait_for(asyncio.shield(answer), _PROBE_TIMEOUT_SECONDS)
        except StandingBy:
            return STANDING_BY
        except Exception:  # any error of the driver, or a timeout
            return DATABASE_UNREACHABLE
        return DISK_FULL if self._is_full() else ""

    def _is_full(self) -> bool:
        try:
            disk = os.statvfs(self._home)
        except OSError:
            return True
        return disk.f_bavail * disk.f_frsize < self._least


T = TypeVar("T")
_KEEP_FACTOR = 20


class CachedValue(Generic[T]):
    """Reads a value in a thread, one read at a time, and keeps it for `keep_seconds` and at least 20 times as long as
    the read took. A database that hangs thus blocks no caller beyond its timeout."""

    def __init__(self, read: Callable[[], T], keep_seconds: float) -> None:
        self._read, self._keep_seconds = read, keep_seconds
        self._lock = threading.Lock()
        self._last: Future[T] | None = None
        self._good_until = 0.0

    def ask(self) -> Future[T]:
        """Future of the kept value, or of the read in progress."""
        with self._lock:
            last = self._last
            if last is None or (last.done() and time.monotonic() >= self._good_until):
                last = self._last = Future()
                threading.Thread(target=self._work, args=(last,), name="figures", daemon=True).start()
            return last

    def get(self, seconds: float) -> T:
        """Wait for the value. Raises TimeoutError, or what the read raised."""
        return self.ask().result(seconds)

    def _work(self, future: "Future[T]") -> None:
        began = time.monotonic()
        try:
            value = self._read()
        except BaseException as problem:
            self._good_until = time.monotonic() + self._keep_seconds
            future.set_exception(problem)
            return
        now = time.monotonic()
        self._good_until = now + max(self._keep_seconds, _KEEP_FACTOR * (now - began))
        future.set_result(value)
