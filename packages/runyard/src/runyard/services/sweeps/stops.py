from collections.abc import Callable

from runyard.errors import NotFound
from runyard.model.runs import RunEvent, RunId, RunRecord, RunStatus
from runyard.model.sweeps import Trial
from runyard.ports.clock import Clock
from runyard.ports.stores import RunStore
from runyard.services.children import cancel_below
from runyard.services.sweeps.sweep_log import Source, SweepLogs

POLICY_EVENT = "policy"
TOO_LATE = "The stop came too late: the run had reached its end by itself."


class Stops:
    """Has trials stopped that a policy has decided on, with the reason wherever users look for it."""

    def __init__(self, runs: RunStore, logs: SweepLogs, clock: Clock, cancel: Callable[[RunId], None]) -> None:
        self._runs, self._logs, self._clock, self._cancel = runs, logs, clock, cancel

    def carry_out(self, trial: Trial) -> None:
        """With the runs that came from it. Safe to repeat: what was done of it is not done again, but for the line in
        the sweep's log."""
        child = self._find(trial.child_id)
        if trial.stop is None or child is None or child.status.is_terminal:
            return
        if may_be_stopped(child.status):
            self._give_reason(child, f"Stopped by the {trial.stop.text}")
            self._logs.write(trial.sweep_id, Source.CONTROLLER, f"{child.id} stopped: {trial.stop.text}")
            self._cancel(child.id)
        cancel_below(self._runs, child, self._cancel)

    def note_end(self, trial: Trial, child: RunRecord) -> None:
        """Where the run ended before its stop reached it, what was said of it is not all of it. Safe to repeat."""
        if trial.stop is not None and child.status is not RunStatus.CANCELED:
            self._give_reason(self._runs.get(child.id), TOO_LATE)

    def goes_on(self, child_id: RunId) -> bool:
        """Whether it is there and nobody has begun to end it."""
        child = self._find(child_id)
        return child is not None and may_be_stopped(child.status)

    def _give_reason(self, child: RunRecord, reason: str) -> None:
        if reason not in child.warnings:
            self._runs.update(child.id, warnings=(reason,))
        said = {event.text for event in self._runs.events(child.id) if event.kind == POLICY_EVENT}
        if reason not in said:
            self._runs.add_event(child.id, RunEvent(self._clock.now(), POLICY_EVENT, reason))

    def _find(self, child_id: RunId) -> RunRecord | None:
        try:
            return self._runs.get(child_id)
        except NotFound:
            return None


def may_be_stopped(status: RunStatus) -> bool:
    """Not what has ended or is being canceled."""
    return not status.is_terminal and status is not RunStatus.CANCEL_REQUESTED
