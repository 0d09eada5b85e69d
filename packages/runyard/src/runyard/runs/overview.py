from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from runyard.core.data_plan import data_references
from runyard.core.principal import Principal
from runyard.core.records.launch_plan import DataItem
from runyard.core.records.metrics import MetricKind, MetricSeries, MetricSummary
from runyard.core.records.runs import RunId, RunRecord
from runyard.data.datasets.lineage import Lineage, LineageInput, LineageOutput
from runyard.runs.history.files import ListedFile, RunFiles
from runyard.runs.history.logs import Logs, rank_logs, streamed_log
from runyard.runs.history.metrics import Metrics, last_value
from runyard.runs.history.ranks import Ranks, RanksOfRun
from runyard.runs.kinds.kind import RunKind
from runyard.runs.kinds.registry import RunKinds
from runyard.runs.runs import RunHistory, Runs

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
    """See `Metrics.last_values`."""
    values: Sequence[float]
    """All values in order, for a plot; empty if they are not numbers."""


@dataclass(frozen=True)
class LogTailView:
    path: str
    text: str
    is_cut: bool


@dataclass(frozen=True)
class RunOverview:
    """All that the page of a run shows."""

    run: RunRecord
    kind: RunKind
    history: RunHistory
    inputs: Sequence[LineageInput]
    outputs: Sequence[LineageOutput]
    references: Sequence[DataItem]
    metrics: Sequence[MetricOverview]
    log: LogTailView | None
    ranks: RanksOfRun
    rank_logs: Sequence[LogTailView]
    """Logs of the other ranks; empty if there is only one."""
    files: Sequence[ListedFile]
    file_count: int


class RunOverviews:
    def __init__(
        self, runs: Runs, kinds: RunKinds, ranks: Ranks, lineage: Lineage, metrics: Metrics, logs: Logs, files: RunFiles
    ) -> None:
        self._runs, self._kinds, self._ranks, self._lineage = runs, kinds, ranks, lineage
        self._metrics, self._logs, self._files = metrics, logs, files

    def get(self, who: Principal, run_id: RunId) -> RunOverview:
        run = self._runs.get(who, run_id)
        kind = self._kinds.of(run)
        inputs, outputs = self._lineage.of_run(who, run)
        files = self._files.list(who, run_id)
        sizes = self._logs.sizes(who, run_id)
        shown = streamed_log(sizes, own=kind.log)
        others = [one.path for one in rank_logs(sizes, run.definition) if one.path != shown][:MOST_RANK_LOGS]
        return RunOverview(
            run=run,
            kind=kind,
            history=self._runs.history(who, run),
            inputs=inputs,
            outputs=outputs,
            references=data_references(run.definition),
            metrics=self._metric_overviews(who, run),
            log=self._tail(who, run_id, shown, TAIL_BYTES) if shown else None,
            ranks=self._ranks.of(who, run_id),
            rank_logs=[self._tail(who, run_id, path, TAIL_BYTES_OF_A_RANK) for path in others],
            files=files[:MOST_FILES],
            file_count=len(files),
        )

    def _metric_overviews(self, who: Principal, run: RunRecord) -> list[MetricOverview]:
        summaries = list(self._runs.summaries(who, [run]).get(run.id, ()))[:MOST_METRICS]
        series = {(one.name, one.kind): one for one in self._metrics.series(who, run.id)[run.id]}
        found = [(one, series.get((one.name, one.kind))) for one in summaries]
        return [MetricOverview(summary, last_value(one), _numbers(one)) for summary, one in found if one]

    def _tail(self, who: Principal, run_id: RunId, path: str, most_bytes: int) -> LogTailView:
        size = self._logs.sizes(who, run_id)[path]
        _, data = self._logs.read(who, run_id, path, -most_bytes, most_bytes)
        is_cut = size > len(data)
        if is_cut:
            data = data.partition(b"\n")[2]
        return LogTailView(path, data.decode("utf-8", "replace"), is_cut)


def _numbers(series: MetricSeries) -> Sequence[float]:
    if series.kind not in (MetricKind.SCALAR, MetricKind.LIST) or series.type not in NUMBERED_TYPES:
        return ()
    return series.values
