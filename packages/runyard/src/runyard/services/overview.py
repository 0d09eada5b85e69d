from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from runyard.model.metrics import MetricKind, MetricSeries, MetricSummary
from runyard.model.plan import DataItem
from runyard.model.runs import RunId, RunRecord
from runyard.planning.data import data_references
from runyard.services.data.lineage import InputShown, Lineage, OutputShown
from runyard.services.files import ListedFile, RunFiles
from runyard.services.logs import Logs
from runyard.services.metrics import Metrics, last_value
from runyard.services.rank_logs import rank_logs, streamed_log
from runyard.services.ranks import Ranks, RanksOfRun
from runyard.services.runs import RunHistory, Runs

TAIL_BYTES = 32 * 1024
TAIL_BYTES_OF_A_RANK = 8 * 1024
MOST_RANK_LOGS = 64
MOST_METRICS = 100
MOST_FILES = 1000
NUMBERED_TYPES = frozenset({"i", "f"})


@dataclass(frozen=True)
class MetricOverview:
    summary: MetricSummary
    last: Any
    """As `Metrics.last_values` has it."""
    values: Sequence[float]
    """All of them in order, for a plot; empty when they are no numbers."""


@dataclass(frozen=True)
class LogTail:
    path: str
    text: str
    is_cut: bool


@dataclass(frozen=True)
class Overview:
    """One look at a run: what its page shows."""

    run: RunRecord
    history: RunHistory
    inputs: Sequence[InputShown]
    outputs: Sequence[OutputShown]
    references: Sequence[DataItem]
    metrics: Sequence[MetricOverview]
    log: LogTail | None
    ranks: RanksOfRun
    rank_logs: Sequence[LogTail]
    """Of the ranks that `log` is not of; empty when there is but one."""
    files: Sequence[ListedFile]
    file_count: int


class Overviews:
    def __init__(
        self, runs: Runs, ranks: Ranks, lineage: Lineage, metrics: Metrics, logs: Logs, files: RunFiles
    ) -> None:
        self._runs, self._ranks, self._lineage = runs, ranks, lineage
        self._metrics, self._logs, self._files = metrics, logs, files

    def get(self, run_id: RunId) -> Overview:
        run = self._runs.get(run_id)
        inputs, outputs = self._lineage.of_run(run_id)
        files = self._files.list(run_id)
        sizes = self._logs.sizes(run_id)
        shown = streamed_log(sizes)
        others = [one.path for one in rank_logs(sizes, run.definition) if one.path != shown][:MOST_RANK_LOGS]
        return Overview(
            run=run,
            history=self._runs.history(run),
            inputs=inputs,
            outputs=outputs,
            references=data_references(run.definition),
            metrics=self._metric_overviews(run_id),
            log=self._tail(run_id, shown, TAIL_BYTES) if shown else None,
            ranks=self._ranks.of(run_id),
            rank_logs=[self._tail(run_id, path, TAIL_BYTES_OF_A_RANK) for path in others],
            files=files[:MOST_FILES],
            file_count=len(files),
        )

    def _metric_overviews(self, run_id: RunId) -> list[MetricOverview]:
        summaries = list(self._runs.summaries([run_id]).get(run_id, ()))[:MOST_METRICS]
        series = {(one.name, one.kind): one for one in self._metrics.series(run_id)[run_id]}
        found = [(one, series.get((one.name, one.kind))) for one in summaries]
        return [MetricOverview(summary, last_value(one), _numbers(one)) for summary, one in found if one]

    def _tail(self, run_id: RunId, path: str, most_bytes: int) -> LogTail:
        size = self._logs.sizes(run_id)[path]
        _, data = self._logs.read(run_id, path, -most_bytes, most_bytes)
        is_cut = size > len(data)
        if is_cut:
            data = data.partition(b"\n")[2]
        return LogTail(path, data.decode("utf-8", "replace"), is_cut)


def _numbers(series: MetricSeries) -> Sequence[float]:
    if series.kind not in (MetricKind.SCALAR, MetricKind.LIST) or series.type not in NUMBERED_TYPES:
        return ()
    return series.values
