"""Builds what counts and shows figures."""

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
    """None where the service has no endpoint for them."""
    if not has_endpoint(os.environ):
        return None
    traces = TraceExport(base.stores.runs)
    base.notifier.on_end(traces.note_end)
    return traces


def counting_points(figures: Figures, heard: Heard) -> Heard:
    def count(run: RunRecord, delivered: Delivered) -> None:
        figures.runs.note_points(sum(len(batch.values) for batch in delivered.batches))
        heard(run, delivered)

    return count
