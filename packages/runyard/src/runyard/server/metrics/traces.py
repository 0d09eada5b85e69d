"""Exports a trace of its phases when a run ends, where an OTLP endpoint is configured."""

import logging
import queue
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

from runyard.core.errors import RunyardError
from runyard.core.ports.stores import RunStore
from runyard.core.records.runs import RunId, RunRecord

if TYPE_CHECKING:
    from runyard.server.metrics.spans import SpanSender

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_MAX_QUEUED = 1000
_CLOSING_SECONDS = 3.0
log = logging.getLogger(__name__)


def has_endpoint(variables: Mapping[str, str]) -> bool:
    if variables.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    return any(variables.get(name) for name in ENDPOINTS)


class TraceExport:
    """Exports traces from its own thread, so that no run waits. A trace that does not fit the queue, or cannot be
    sent, is lost and counted."""

    def __init__(self, runs: RunStore) -> None:
        self._runs = runs
        self._waiting: queue.Queue[RunId | None] = queue.Queue(_MAX_QUEUED)
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self.lost = 0

    def note_end(self, run: RunRecord) -> None:
        """Queue the trace of an ended run. Thread-safe."""
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="traces", daemon=True)
                self._thread.start()
        try:
            self._waiting.put_nowait(run.id)
        except queue.Full:
            self._lose("the queue is full")

    def close(self) -> None:
        """Send the queued traces, for some seconds at most."""
        if self._thread is None:
            return
        try:
            self._waiting.put_nowait(None)
        except queue.Full:
            return
        self._thread.join(_CLOSING_SECONDS)

    def _work(self) -> None:
        sender = _sender()
        while (run_id := self._waiting.get()) is not None:
            if sender is None:
                continue
            try:
                if not sender.send(self._runs.get(run_id), self._runs.events(run_id)):
                    self._lose("the endpoint does not answer or refuses them")
            except RunyardError as problem:
                self._lose(str(problem))
            except Exception as problem:  # the thread must survive
                self._lose(f"{type(problem).__name__}: {problem}")

    def _lose(self, why: str) -> None:
        self.lost += 1
        if self.lost & (self.lost - 1) == 0:  # log the 1st, 2nd, 4th, 8th loss and so on
            log.warning("%d traces of runs are lost so far, the last since %s.", self.lost, why)


def _sender() -> "SpanSender | None":
    try:
        from runyard.server.metrics.spans import SpanSender  # optional packages, slow to import

        return SpanSender()
    except ImportError as missing:
        log.warning("Traces of runs are not sent: %s. Run: pip install 'runyard[otel]'", missing)
    except Exception as problem:  # an invalid OpenTelemetry variable
        log.warning("Traces of runs are not sent: %s: %s", type(problem).__name__, problem)
    return None
