from contextlib import suppress

from runyard.errors import Conflict, NotFound
from runyard.model.runs import RunEvent, RunId, RunRecord, RunStatus
from runyard.model.sweeps import Trial
from runyard.runs.children import cancel_below, children_of
from runyard.runs.kinds.kind import KindTools
from runyard.runs.kinds.sweep.log import Source, SweepLogs

TIME_OVER = "Canceled because the time of its sweep was over."
TOO_LATE = "The stop came too late: the run had reached its end by itself."
POLICY_EVENT = "policy"
_S = RunStatus
_WAITING = frozenset({_S.NOT_STARTED, _S.PREPARING, _S.QUEUED})
_UNTOLD = [status for status in _S if not status.is_terminal and status is not _S.CANCEL_REQUESTED]
_CANCELED_IN_ONE_GO = 100


class Stops:
    """Has trials stopped that a policy has decided on, with the reason wherever users look for it."""

    def __init__(self, tools: KindTools, logs: SweepLogs) -> None:
        self._tools, self._runs, self._logs = tools, tools.runs, logs

    def carry_out(self, trial: Trial) -> None:
        """With the runs that came from it. Safe to repeat: what was done of it is not done again, but for the line in
        the sweep's log."""
        child = self._find(trial.child_id)
        if trial.stop is None or child is None or child.status.is_terminal:
            return
        if may_be_stopped(child.status):
            self._give_reason(child, f"Stopped by the {trial.stop.text}")
            self._logs.write(trial.sweep_id, Source.CONTROLLER, f"{child.id} stopped: {trial.stop.text}")
            self._tools.controller.cancel(child.id)
        cancel_below(self._runs, self._tools.controller, child)

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
            self._runs.add_event(child.id, RunEvent(self._tools.clock.now(), POLICY_EVENT, reason))

    def _find(self, child_id: RunId) -> RunRecord | None:
        try:
            return self._runs.get(child_id)
        except NotFound:
            return None


class CallingOff:
    """Cancels the children of a sweep that is to end."""

    def __init__(self, tools: KindTools) -> None:
        self._tools, self._runs = tools, tools.runs

    def go_on(self, sweep: RunRecord, *, why: str = "") -> bool:
        """Cancel the next ones, those that wait first. `why` becomes a warning of theirs. True where more are left."""
        untold = children_of(self._runs, sweep, _UNTOLD)
        untold.sort(key=lambda child: child.status not in _WAITING)
        for child in untold[:_CANCELED_IN_ONE_GO]:
            with suppress(NotFound):
                self._call_off(child, why)
        return len(untold) > _CANCELED_IN_ONE_GO

    def _call_off(self, child: RunRecord, why: str) -> None:
        said = {"warnings": (why,)} if why and why not in child.warnings else {}
        if child.status in _WAITING and not child.attempt:
            # Nothing of it was ever begun, so there is nothing to stop, to seal or to free.
            with suppress(Conflict):
                self._runs.move(child, _S.CANCELED, message="", **said)
                return
        if said:
            self._runs.update(child.id, **said)
        self._tools.controller.cancel(child.id)
        if child.status not in _WAITING:
            cancel_below(self._runs, self._tools.controller, child)


def may_be_stopped(status: RunStatus) -> bool:
    """Not what has ended or is being canceled."""
    return not status.is_terminal and status is not RunStatus.CANCEL_REQUESTED
