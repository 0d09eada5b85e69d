import os

from runyard.figures.counts import RunCounts
from runyard.figures.figures import Figures
from runyard.figures.traces import TraceExport, has_endpoint
from runyard.foundation import Foundation
from runyard.lifecycle.home import LEAST_FREE_BYTES
from runyard.model.runs import RunRecord
from runyard.runs.history.journals import Delivered, Heard
from runyard.serving.host import LocalServiceHost


def build_figures(base: Foundation, host: LocalServiceHost) -> Figures:
    runs = RunCounts()
    base.notifier.on_end(runs.note_end)
    return Figures(base.stores.database, base.settings.home, runs, host.figures, LEAST_FREE_BYTES)


def build_traces(base: Foundation) -> TraceExport | None:
    """None where no OTLP endpoint is configured."""
    if not has_endpoint(os.environ):
        return None
    traces = TraceExport(base.stores.runs)
    base.notifier.on_end(traces.note_end)
    return traces


def counting_points(metrics: Figures, listener: Heard) -> Heard:
    """Wrap a metric listener so that logged points are counted first."""

    def count(run: RunRecord, delivered: Delivered) -> None:
        metrics.runs.note_points(sum(len(batch.values) for batch in delivered.batches))
        listener(run, delivered)

    return count
