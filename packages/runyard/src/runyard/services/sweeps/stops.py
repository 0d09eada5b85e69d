from collections.abc import Callable

from runyard.errors import NotFound
from runyard.model.runs import RunEvent, RunId, RunStatus
from runyard.model.sweeps import Trial
from runyard.ports.clock import Clock
from runyard.ports.stores import RunStore
from runyard.services.sweeps.sweep_log import Source, SweepLogs

POLICY_EVENT = "policy"


class Stops:
    """Has trials stopped that a policy has decided on, with the reason wherever users look for it."""

    def __init__(self, runs: RunStore, logs: SweepLogs, clock: Clock, cancel: Callable[[RunId], None]) -> None:
        self._runs, self._logs, self._clock, self._cancel = runs, logs, clock, cancel

    def carry_out(self, trial: Trial) -> None:
        """Safe to repeat: what was done of it is not done again, but for the line in the sweep's log."""
        if trial.stop is None or not self.goes_on(trial.child_id):
            return
        child, reason = self._runs.get(trial.child_id), f"Stopped by the {trial.stop.text}"
        if reason not in child.warnings:
            self._runs.update(child.id, warnings=(reason,))
        if all(event.kind != POLICY_EVENT for event in self._runs.events(child.id)):
            self._runs.add_event(child.id, RunEvent(self._clock.now(), POLICY_EVENT, reason))
        self._logs.write(trial.sweep_id, Source.CONTROLLER, f"{child.id} stopped: {trial.stop.text}")
        self._cancel(child.id)

    def goes_on(self, child_id: RunId) -> bool:
        """Whether it is there and nobody has begun to end it."""
        try:
            return may_be_stopped(self._runs.get(child_id).status)
        except NotFound:
            return False


def may_be_stopped(status: RunStatus) -> bool:
    """Not what has ended or is being canceled."""
    return not status.is_terminal and status is not RunStatus.CANCEL_REQUESTED
