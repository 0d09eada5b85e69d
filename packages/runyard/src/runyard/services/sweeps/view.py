"""A sweep as people look at it: on its page, on the command line, in a notebook."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from runyard.model.metrics import MetricKind, MetricSeries, as_number
from runyard.model.runs import RunId, RunStatus
from runyard.model.sweeps import RankedTrial
from runyard.ports.stores import MetricStore, RunStore
from runyard.services.sweeps.listing import SweepListing, SweepSummary
from runyard.services.sweeps.progress import Progress, progress_of
from runyard.services.sweeps.sweep_lines import cause_of

MOST_TRIALS = 10_000
MOST_ERRORS = 200
MOST_LINES = 100
MOST_NUMBERS = 120
MOST_ERROR_CHARACTERS = 300


@dataclass(frozen=True)
class SeenTrial:
    trial: RankedTrial
    why: str = ""
    """Why a policy stopped it, or the first line of why it failed; empty for all others."""
    numbers: Sequence[float | None] = field(default=())
    """Its primary metric in order of logging, thinned; None for what is no finite number."""


@dataclass(frozen=True)
class SweepView:
    summary: SweepSummary
    trials: Sequence[SeenTrial]
    """The best ones, best first."""
    trial_count: int
    """How many it has in all."""
    progress: Progress


class SweepViews:
    """Reads the same few rows for each look, whatever the children do: nothing is asked of them."""

    def __init__(self, listing: SweepListing, runs: RunStore, metrics: MetricStore) -> None:
        self._listing, self._runs, self._metrics = listing, runs, metrics

    def of(self, sweep_id: RunId, *, top: int = 20, lines: int = 0) -> SweepView:
        """With `top` children, and of the first `lines` of them what they logged. Raises NotFound for no sweep."""
        summary = self._listing.summary(sweep_id)
        ranked = self._listing.ranked(sweep_id)
        shown = ranked[: min(top, MOST_TRIALS)]
        numbers = self._numbers([trial.run_id for trial in shown[: min(lines, MOST_LINES)]], summary.metric)
        failed = [trial.run_id for trial in shown if trial.status is RunStatus.FAILED][:MOST_ERRORS]
        errors = {run_id: cause_of(self._runs.get(run_id))[:MOST_ERROR_CHARACTERS] for run_id in failed}
        seen = [SeenTrial(one, errors.get(one.run_id) or _stopped(one), numbers.get(one.run_id, ())) for one in shown]
        return SweepView(summary, seen, len(ranked), progress_of(ranked, summary.goal))

    def _numbers(self, run_ids: Sequence[RunId], metric: str) -> dict[RunId, Sequence[float | None]]:
        """Of rank 0, which is the one that is judged where it logs at all."""
        found = dict(self._metrics.series_of(run_ids, metric, 0))
        without = [run_id for run_id in run_ids if not found.get(run_id)]
        if without:
            found |= self._metrics.series_of(without, metric)
        return {run_id: _thinned(several) for run_id, several in found.items()}


def _stopped(trial: RankedTrial) -> str:
    """A child may reach its end before the decision reaches it."""
    if trial.stop is None:
        return ""
    return f"Too late: {trial.stop.text}" if trial.status is RunStatus.COMPLETED else trial.stop.text


def _thinned(several: Sequence[MetricSeries]) -> Sequence[float | None]:
    values = next((one.values for one in several if one.kind.family is MetricKind.SCALAR), ())
    numbers = [number for number in map(as_number, values) if number is not None]
    if len(numbers) > MOST_NUMBERS:
        step = (len(numbers) - 1) / (MOST_NUMBERS - 1)
        numbers = [numbers[round(index * step)] for index in range(MOST_NUMBERS)]
    return [number if math.isfinite(number) else None for number in numbers]
