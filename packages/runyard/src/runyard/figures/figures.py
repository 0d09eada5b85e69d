"""Metrics of the service for Prometheus, and its readiness for probes."""

import logging
import os
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

from runyard.core.definitions.fields import JsonObject
from runyard.core.policy import SERVICE_ITSELF, Action, require
from runyard.core.principal import Principal
from runyard.figures.counts import RequestCounts, RunCounts
from runyard.figures.readiness import Readiness
from runyard.figures.reading import Reading
from runyard.model.runs import RunStatus
from runyard.stores.database import Database
from runyard.stores.tallies import Tally, ping, size_bytes, statuses_of, tally

GatewayFigures = Callable[[], Sequence[JsonObject] | None]
"""Counts of each web service; None while the gateway does not answer, empty without web services."""
_KEEP_SECONDS, _LONGEST_SECONDS = 2.0, 3.0
_ENDED_AT_ONCE = 2000
_ENDS = frozenset(status.value for status in RunStatus if status.is_terminal)
log = logging.getLogger(__name__)


class Figures:
    """Values of a scrape. Each is read in a thread and kept for some seconds, so that scrapes cost little."""

    def __init__(self, database: Database, home: Path, runs: RunCounts, gateway: GatewayFigures, least: int) -> None:
        """`least` is the number of free bytes below which the service is not ready."""
        self.database, self.home, self.runs = database, home, runs
        self.readiness = Readiness(database, home, least)
        self.errors: Counter[str] = Counter()
        """Number of failures by part of the scrape."""
        self._tally = Reading(lambda: tally(database), _KEEP_SECONDS)
        self._ping = Reading(lambda: ping(database), _KEEP_SECONDS)
        self._size = Reading(lambda: size_bytes(database), _KEEP_SECONDS)
        self._phases = Reading(self._read_phases, _KEEP_SECONDS)
        self._gateway = Reading(gateway, _KEEP_SECONDS)
        self._scraping = threading.Lock()

    def scrape(self, who: Principal, requests: RequestCounts) -> bytes:
        """The Prometheus text. A part that cannot be read is left out and counted. Raises Forbidden."""
        require(who, Action.READ_FIGURES, SERVICE_ITSELF)
        from runyard.figures.exposition import exposed  # prometheus_client is slow to import

        with self._scraping:
            return exposed(self, requests)

    def tally(self) -> Tally:
        return self._tally.get(_LONGEST_SECONDS)

    def ping_seconds(self) -> float:
        return self._ping.get(_LONGEST_SECONDS)

    def database_bytes(self) -> int:
        return self._size.get(_LONGEST_SECONDS)

    def web_services(self) -> Sequence[JsonObject] | None:
        return self._gateway.get(_LONGEST_SECONDS)

    def disk_bytes(self) -> tuple[int, int]:
        """(free, total) of the disk of the home."""
        disk = os.statvfs(self.home)
        return disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize

    def count_phases(self) -> None:
        """Count the phases of runs that ended since the last scrape."""
        self._phases.get(_LONGEST_SECONDS)

    def failed(self, part: str, problem: Exception) -> None:
        """Count a part that was left out; only its first failure is logged."""
        self.errors[part] += 1
        if self.errors[part] == 1:
            log.warning("A scrape left out %s: %s: %s", part, type(problem).__name__, problem)

    def _read_phases(self) -> None:
        ended = self.runs.take_unread(_ENDED_AT_ONCE)
        try:
            found = statuses_of(self.database, ended)
        except Exception:
            self.runs.put_back(ended)
            raise
        for events in found.values():
            for here, after in pairwise(events):
                if here.text not in _ENDS:
                    self.runs.note_phase(here.text, max(0.0, (after.at - here.at).total_seconds()))
