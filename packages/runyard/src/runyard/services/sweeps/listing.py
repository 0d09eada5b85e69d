"""What is known of a sweep and its trials, read from rows: true after any restart, and whatever goes on meanwhile."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from runyard.errors import NotFound
from runyard.model.runs import RunId, RunRecord, RunStatus
from runyard.model.sweeps import SWEEP_TYPE, Goal, RankedTrial
from runyard.ports.stores import RunStore, TrialStore
from runyard.services.sweeps.asked import spec_of, sweep_in
from runyard.tuning.samplers import seed_of

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
    raw: Mapping[str, Any]
    """What the sweep asks for, as submitted."""
    seed: int
    metric: str
    goal: Goal
    counts: Mapping[str, int]
    """`stopped` are those of `canceled` that a policy stopped; `sampled` are all."""
    best: RankedTrial | None
    """Of its own trials; None while no child has logged a number of the primary metric."""
    ends_at: datetime | None
    """When its time is over; None before it has begun."""
    logged: Mapping[str, int]
    """In how many children each metric was logged. Empty where there is a best."""


@dataclass(frozen=True)
class Ranking:
    metric: str
    goal: Goal
    trials: Sequence[RankedTrial]


class SweepListing:
    def __init__(self, runs: RunStore, trials: TrialStore) -> None:
        self._runs, self._trials = runs, trials

    def summary(self, run_id: RunId) -> SweepSummary:
        """Raises NotFound for a run that is no sweep."""
        run = self._sweep(run_id)
        spec = spec_of(run)
        best = next((one for one in self._trials.ranked([run_id], spec.metric, spec.goal, limit=1)), None)
        has_best = best is not None and best.best is not None
        return SweepSummary(
            raw=sweep_in(run.definition),
            seed=seed_of(spec, run_id),
            metric=spec.metric,
            goal=spec.goal,
            counts=_counts(self._trials.tally(run_id), has_ended=run.status.is_terminal),
            best=best if has_best else None,
            ends_at=run.started_at and run.started_at + timedelta(minutes=spec.max_duration_minutes),
            logged={} if has_best else self._trials.logged(run_id),
        )

    def ranked(self, run_id: RunId) -> Sequence[RankedTrial]:
        """Its own trials, best first. Raises NotFound for a run that is no sweep."""
        return self.ranking(run_id).trials

    def ranking(
        self,
        run_id: RunId,
        *,
        top: int = 0,
        worst_first: bool = False,
        discard_no_metric: bool = False,
        resumed: bool = False,
        leave_out: Collection[RunStatus] = (),
    ) -> Ranking:
        """The first `top` of the trials, 0 for all: those without a number come last, or not at all. With `resumed`
        those of the sweeps that it resumed from are among them; those whose run has a status of `leave_out` are not.
        Raises NotFound for a run that is no sweep."""
        spec = spec_of(self._sweep(run_id))
        sweeps = [run_id, *(spec.resume_from if resumed else ())]
        limit = top if top and not worst_first else None
        found = self._trials.ranked(sweeps, spec.metric, spec.goal, limit=limit, leave_out=leave_out)
        if worst_first or discard_no_metric:
            with_number = [trial for trial in found if trial.best is not None]
            without = [] if discard_no_metric else found[len(with_number) :]
            found = [*(reversed(with_number) if worst_first else with_number), *without]
        return Ranking(spec.metric, spec.goal, found[:top] if top else found)

    def _sweep(self, run_id: RunId) -> RunRecord:
        run = self._runs.get(run_id)
        if run.type != SWEEP_TYPE:
            raise NotFound(
                f"Run {run_id!r} is no sweep: its type is {run.type!r}.",
                hint="`runyard sweeps list` shows the sweeps there are.",
            )
        return run


def _counts(tally: Mapping[tuple[RunStatus, bool], int], *, has_ended: bool) -> dict[str, int]:
    """In a sweep that has ended nothing waits: what was sampled and not made by then was called off with it."""
    counts = dict.fromkeys(_COUNTS, 0)
    for (status, is_stopped), count in tally.items():
        counts["sampled"] += count
        counted_as = _COUNTED_AS[status]
        counts["canceled" if has_ended and counted_as == "waiting" else counted_as] += count
        counts["stopped"] += count if is_stopped and status is _S.CANCELED else 0
    return counts
