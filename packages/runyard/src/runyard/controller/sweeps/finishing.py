from typing import Any

from runyard.controller.sweeps.calling_off import TIME_OVER
from runyard.controller.sweeps.ending import Best, End, Outcome, end_of_sweep
from runyard.controller.sweeps.underway import Underway
from runyard.errors import Conflict
from runyard.model.runs import RunRecord, RunStatus
from runyard.model.sweeps import SweepSpec
from runyard.ports.blobs import LogStore
from runyard.ports.clock import Clock
from runyard.ports.stores import RunStore, TrialStore
from runyard.services.children import children_of

_MOST_TRIES = 20


class Finishing:
    """Ends sweeps of which no child goes on any more."""

    def __init__(self, runs: RunStore, trials: TrialStore, logs: LogStore, clock: Clock) -> None:
        self._runs, self._trials, self._logs, self._clock = runs, trials, logs, clock

    def end_of(self, run: RunRecord, underway: Underway, *, is_time_over: bool) -> End:
        """How it is to end. The same at each call, since nothing changes any more."""
        live, children = underway.live, children_of(self._runs, run)
        spec = live.spec
        canceled = {child.id for child in children if child.status is RunStatus.CANCELED}
        is_canceled = run.status is RunStatus.CANCEL_REQUESTED
        best = self._best(run, spec)
        return end_of_sweep(
            Outcome(
                metric=spec.metric,
                children=children,
                stopped=frozenset(canceled & {trial.child_id for trial in live.trials if trial.stop}),
                best=best,
                logged={} if best else self._trials.logged(run.id),
                is_canceled=is_canceled,
                left_out=underway.left_out if (is_time_over or underway.barred) and not is_canceled else 0,
                barred=underway.barred,
                cut_off=frozenset(canceled & {child.id for child in children if TIME_OVER in child.warnings}),
                minutes=spec.max_duration_minutes,
            )
        )

    def store(self, run: RunRecord, end: End) -> RunRecord:
        """Raises Conflict where somebody has moved the sweep since `run`."""
        self._logs.seal(run.id)
        for _ in range(_MOST_TRIES):
            changes: dict[str, Any] = {
                "message": "",
                "warnings": tuple(text for text in end.warnings if text not in run.warnings),
                "properties": end.properties,
            }
            if end.error is not None:
                changes["error"] = {**end.error, "time": self._clock.now().isoformat().replace("+00:00", "Z")}
            try:
                return self._runs.move(run, end.status, **changes)
            except Conflict:
                now = self._runs.get(run.id)
                if now.status is not run.status:
                    raise
                run = now  # only annotated
        raise Conflict(f"Run {run.id} is being changed by others all the time.")

    def _best(self, run: RunRecord, spec: SweepSpec) -> Best | None:
        for trial in self._trials.ranked([run.id], spec.metric, spec.goal, limit=1):
            return None if trial.best is None else Best(trial.run_id, trial.best)
        return None
