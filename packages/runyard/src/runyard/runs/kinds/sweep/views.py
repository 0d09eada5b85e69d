"""Read-only views of sweeps and their trials, straight from the stores."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from runyard.access.authorization import Access
from runyard.core.definitions.fields import JsonValue
from runyard.core.errors import NotFound
from runyard.core.policy import Action
from runyard.core.ports.stores import MetricStore, RunStore, TrialStore
from runyard.core.principal import Principal
from runyard.core.records.metrics import MetricKind, MetricSeries, as_number
from runyard.core.records.runs import RunId, RunRecord, RunStatus
from runyard.core.records.sweeps import Goal, RankedTrial
from runyard.runs.kinds.sweep.chart import SweepChart, sweep_chart
from runyard.runs.kinds.sweep.checks import is_sweep, spec_of
from runyard.runs.kinds.sweep.log import cause_of
from runyard.runs.kinds.sweep.sampling.samplers import seed_of

_S = RunStatus
_COUNTED_AS = {
    _S.NOT_STARTED: "waiting",
    _S.PREPARING: "waiting",
    _S.QUEUED: "waiting",
    _S.STARTING: "running",
    _S.RUNNING: "running",
    _S.FINALIZING: "running",
    _S.CANCEL_REQUESTED: "running",
    _S.COMPLETED: "completed",
    _S.FAILED: "failed",
    _S.CANCELED: "canceled",
}
_COUNTS = ("sampled", "waiting", "running", "completed", "failed", "canceled", "stopped")


@dataclass(frozen=True)
class SweepSummary:
    raw: JsonValue
    """Definition of the sweep, as submitted."""
    seed: int
    metric: str
    goal: Goal
    counts: Mapping[str, int]
    """Trials by state. `sampled` counts all; `stopped` are the canceled ones that a policy stopped."""
    best: RankedTrial | None
    """Best of its own trials; None while no child has logged a number for the primary metric."""
    ends_at: datetime | None
    """When max_duration_minutes is over; None before the start."""
    logged: Mapping[str, int]
    """Number of children that logged each metric; empty if there is a best."""


@dataclass(frozen=True)
class Ranking:
    metric: str
    goal: Goal
    trials: Sequence[RankedTrial]


class SweepListing:
    def __init__(self, trials: TrialStore, access: Access) -> None:
        self._trials, self._access = trials, access

    def has(self, who: Principal, run_id: RunId) -> bool:
        """Whether that run is a sweep."""
        return is_sweep(self._access.run(who, Action.READ_RUN, run_id))

    def summary(self, who: Principal, run_id: RunId) -> SweepSummary:
        """Raises NotFound for a run that is not a sweep."""
        run = self._sweep(who, run_id)
        spec = spec_of(run)
        best = next((one for one in self._trials.ranked([run_id], spec.metric, spec.goal, limit=1)), None)
        has_best = best is not None and best.best is not None
        return SweepSummary(
            raw=run.definition.runyard.sweep,
            seed=seed_of(spec, run_id),
            metric=spec.metric,
            goal=spec.goal,
            counts=_counts(self._trials.tally(run_id), has_ended=run.status.is_terminal),
            best=best if has_best else None,
            ends_at=run.started_at and run.started_at + timedelta(minutes=spec.max_duration_minutes),
            logged={} if has_best else self._trials.logged(run_id),
        )

    def ranked(self, who: Principal, run_id: RunId) -> Sequence[RankedTrial]:
        """Own trials, best first. Raises NotFound for a run that is not a sweep."""
        return self.ranking(who, run_id).trials

    def ranking(
        self,
        who: Principal,
        run_id: RunId,
        *,
        top: int = 0,
        worst_first: bool = False,
        discard_no_metric: bool = False,
        resumed: bool = False,
        leave_out: Collection[RunStatus] = (),
    ) -> Ranking:
        """Rank the trials; return the first `top`, 0 for all. Raises NotFound for a run that is not a sweep.

        Trials without a number come last, or are left out with `discard_no_metric`. `resumed` adds the trials of the
        sweeps that it resumed from, if the caller may read those. Runs with a status in `leave_out` are left out.
        """
        spec = spec_of(self._sweep(who, run_id))
        before = spec.resume_from if resumed else ()
        sweeps = [run_id, *(one for one in before if self._access.may_read_run(who, one))]
        limit = top if top and not worst_first else None
        found = self._trials.ranked(sweeps, spec.metric, spec.goal, limit=limit, leave_out=leave_out)
        if worst_first or discard_no_metric:
            with_number = [trial for trial in found if trial.best is not None]
            without = [] if discard_no_metric else found[len(with_number) :]
            found = [*(reversed(with_number) if worst_first else with_number), *without]
        return Ranking(spec.metric, spec.goal, found[:top] if top else found)

    def _sweep(self, who: Principal, run_id: RunId) -> RunRecord:
        run = self._access.run(who, Action.READ_RUN, run_id)
        if not is_sweep(run):
            raise NotFound(
                f"Run {run_id!r} is no sweep: its type is {run.type!r}.",
                hint="`runyard sweeps list` shows the sweeps there are.",
            )
        return run


def _counts(tally: Mapping[tuple[RunStatus, bool], int], *, has_ended: bool) -> dict[str, int]:
    """Count trials by state. In an ended sweep, trials without a run count as canceled, not as waiting."""
    counts = dict.fromkeys(_COUNTS, 0)
    for (status, is_stopped), count in tally.items():
        counts["sampled"] += count
        counted_as = _COUNTED_AS[status]
        counts["canceled" if has_ended and counted_as == "waiting" else counted_as] += count
        counts["stopped"] += count if is_stopped and status is _S.CANCELED else 0
    return counts


MOST_TRIALS = 10_000
MOST_ERRORS = 200
MOST_LINES = 100
MOST_NUMBERS = 120
MOST_ERROR_CHARACTERS = 300


@dataclass(frozen=True)
class TrialView:
    trial: RankedTrial
    why: str = ""
    """Why a policy stopped it, or the first line of its error; empty otherwise."""
    numbers: Sequence[float | None] = field(default=())
    """Primary metric in order of logging, at most MOST_NUMBERS; None for NaN and infinity."""


@dataclass(frozen=True)
class SweepView:
    summary: SweepSummary
    trials: Sequence[TrialView]
    """The best trials, best first."""
    trial_count: int
    """Number of all trials."""
    progress: SweepChart


class SweepViews:
    """Reads what the page of a sweep shows, with a bounded number of queries."""

    def __init__(self, listing: SweepListing, runs: RunStore, metrics: MetricStore) -> None:
        self._listing, self._runs, self._metrics = listing, runs, metrics

    def find(self, who: Principal, run: RunRecord, *, top: int, lines: int) -> SweepView | None:
        """Like `of`, but None for a run that is not a sweep."""
        return self.of(who, run.id, top=top, lines=lines) if self._listing.has(who, run.id) else None

    def of(self, who: Principal, sweep_id: RunId, *, top: int = 20, lines: int = 0) -> SweepView:
        """View with the best `top` trials, and the numbers of the first `lines`. Raises NotFound."""
        summary = self._listing.summary(who, sweep_id)
        ranked = self._listing.ranked(who, sweep_id)
        shown = ranked[: min(top, MOST_TRIALS)]
        numbers = self._numbers([trial.run_id for trial in shown[: min(lines, MOST_LINES)]], summary.metric)
        failed = [trial.run_id for trial in shown if trial.status is RunStatus.FAILED][:MOST_ERRORS]
        errors = {run_id: cause_of(self._runs.get(run_id))[:MOST_ERROR_CHARACTERS] for run_id in failed}
        seen = [TrialView(one, errors.get(one.run_id) or _stopped(one), numbers.get(one.run_id, ())) for one in shown]
        return SweepView(summary, seen, len(ranked), sweep_chart(ranked, summary.goal))

    def _numbers(self, run_ids: Sequence[RunId], metric: str) -> dict[RunId, Sequence[float | None]]:
        """Numbers of rank 0, which the policy judges; of all ranks if rank 0 has none."""
        found = dict(self._metrics.series_of(run_ids, metric, 0))
        without = [run_id for run_id in run_ids if not found.get(run_id)]
        if without:
            found |= self._metrics.series_of(without, metric)
        return {run_id: _thinned(several) for run_id, several in found.items()}


def _stopped(trial: RankedTrial) -> str:
    """Why a policy stopped the trial; it may have completed before the stop reached it."""
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
