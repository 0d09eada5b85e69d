"""OpenTelemetry trace of a run. Imported when the first run ends and an endpoint is set."""

import logging
import os
from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256
from itertools import pairwise

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import Status, StatusCode, set_span_in_context

from runyard.core.records.runs import RunEvent, RunRecord, RunStatus
from runyard.core.version import VERSION

SERVICE = "runyard"


class SpanSender:
    """Exports traces; configured by OpenTelemetry's environment variables. Not thread-safe."""

    def __init__(self) -> None:
        named = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": SERVICE}
        self._ids, self._made = _RunTraceIds(), _SpanBuffer()
        provider = TracerProvider(
            resource=Resource.create({"service.version": VERSION, **named}),
            id_generator=self._ids,
            shutdown_on_exit=False,
        )
        provider.add_span_processor(self._made)
        self._tracer = provider.get_tracer(SERVICE, VERSION)
        self._exporter = OTLPSpanExporter()
        logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)  # TraceExport logs losses

    def send(self, run: RunRecord, events: Sequence[RunEvent]) -> bool:
        """Export the trace of a run. False where the endpoint refuses it or does not answer."""
        self._ids.trace_id = trace_id(run.id)
        self._trace(run, [event for event in events if event.kind == "status"])
        spans = self._made.take()
        return not spans or self._exporter.export(spans) is SpanExportResult.SUCCESS

    def _trace(self, run: RunRecord, reached: Sequence[RunEvent]) -> None:
        began = reached[0].at if reached else run.created_at
        ended = max(reached[-1].at if reached else began, run.ended_at or began)
        root = self._tracer.start_span("run", start_time=_nanoseconds(began), attributes=_attributes(run))
        around = set_span_in_context(root)
        for here, after in pairwise(reached):
            phase = self._tracer.start_span(here.text, around, start_time=_nanoseconds(here.at))
            phase.end(_nanoseconds(max(here.at, after.at)))
        if run.status is RunStatus.FAILED:
            root.set_status(Status(StatusCode.ERROR, _error_code(run)))
        root.end(_nanoseconds(ended))


def trace_id(run_id: str) -> int:
    """Trace id derived from the run id, so that one leads to the other."""
    return int(sha256(run_id.encode()).hexdigest()[:32], 16)


def _attributes(run: RunRecord) -> dict[str, str]:
    return {
        "runyard.run.id": run.id,
        "runyard.workspace": run.workspace,
        "runyard.experiment": run.experiment,
        "runyard.compute": run.target,
        "runyard.run.status": run.status.value,
        **({"runyard.run.parent": run.parent_id} if run.parent_id else {}),
    }


def _error_code(run: RunRecord) -> str:
    """Code of the error; never the message, which may quote the script's output."""
    error = (run.error or {}).get("error")
    return str(error.get("code", "")) if isinstance(error, dict) else ""


def _nanoseconds(at: datetime) -> int:
    return int(at.timestamp() * 1_000_000) * 1000


class _RunTraceIds(RandomIdGenerator):
    trace_id = 0

    def generate_trace_id(self) -> int:
        return self.trace_id


class _SpanBuffer(SpanProcessor):
    """Collects the spans of one trace, to export them in one request."""

    def __init__(self) -> None:
        self._ended: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        self._ended.append(span)

    def take(self) -> list[ReadableSpan]:
        taken, self._ended = self._ended, []
        return taken
