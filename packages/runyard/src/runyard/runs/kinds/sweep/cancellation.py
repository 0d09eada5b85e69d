from contextlib import suppress
from typing import Any

from runyard.core.errors import Conflict, NotFound
from runyard.core.lookups import find_run
from runyard.core.records.runs import RunEvent, RunId, RunRecord, RunStatus
from runyard.core.records.sweeps import Trial
from runyard.runs.children import cancel_descendants, children_of
from runyard.runs.kinds.kind import KindTools
from runyard.runs.kinds.sweep.log import LogSource, SweepLogs

TIME_OVER = "Canceled because the time of its sweep was over."
TOO_LATE = "The stop came too late: the run had reached its end by itself."
POLICY_EVENT = "policy"
_S = RunStatus
_WAITING = frozenset({_S.NOT_STARTED, _S.PREPARING, _S.QUEUED})
_CANCELABLE = [status for status in _S if not status.is_terminal and status is not _S.CANCEL_REQUESTED]
_CANCELED_AT_ONCE = 100


class TrialStopper:
    """Stops trials by decision of a policy, and records the reason on the run and in the log of the sweep."""

    def __init__(self, tools: KindTools, logs: SweepLogs) -> None:
        self._tools, self._runs, self._logs = tools, tools.runs, logs

    def stop_trial(self, trial: Trial) -> None:
        """Cancel the trial's run and its descendants. Safe to repeat; only the line in the log is written again."""
        child = find_run(self._runs, trial.child_id)
        if trial.stop is None or child is None or child.status.is_terminal:
            return
        if may_be_stopped(child.status):
            self._record_reason(child, f"Stopped by the {trial.stop.text}")
            self._logs.write(trial.sweep_id, LogSource.CONTROLLER, f"{child.id} stopped: {trial.stop.text}")
            self._tools.controller.cancel(child.id)
        cancel_descendants(self._runs, self._tools.controller, child)

    def note_end(self, trial: Trial, child: RunRecord) -> None:
        """Record that the stop came too late, if the run has ended by itself. Safe to repeat."""
        if trial.stop is not None and child.status is not RunStatus.CANCELED:
            self._record_reason(self._runs.get(child.id), TOO_LATE)

    def goes_on(self, child_id: RunId) -> bool:
        """Whether the run exists and is neither ended nor being canceled."""
        child = find_run(self._runs, child_id)
        return child is not None and may_be_stopped(child.status)

    def _record_reason(self, child: RunRecord, reason: str) -> None:
        if reason not in child.warnings:
            self._runs.update(child.id, warnings=(reason,))
        recorded = {event.text for event in self._runs.events(child.id) if event.kind == POLICY_EVENT}
        if reason not in recorded:
            self._runs.add_event(child.id, RunEvent(self._tools.clock.now(), POLICY_EVENT, reason))


class SweepCanceller:
    """Cancels the children of a sweep that is ending."""

    def __init__(self, tools: KindTools) -> None:
        self._tools, self._runs = tools, tools.runs

    def cancel_next(self, sweep: RunRecord, *, why: str = "") -> bool:
        """Cancel the next children, waiting ones first; `why` becomes a warning. True if more are left."""
        cancelable = children_of(self._runs, sweep, _CANCELABLE)
        cancelable.sort(key=lambda child: child.status not in _WAITING)
        for child in cancelable[:_CANCELED_AT_ONCE]:
            with suppress(NotFound):
                self._cancel(child, why)
        return len(cancelable) > _CANCELED_AT_ONCE

    def _cancel(self, child: RunRecord, why: str) -> None:
        warning: dict[str, Any] = {"warnings": (why,)} if why and why not in child.warnings else {}
        if child.status in _WAITING and not child.attempt:
            # It was never started, so there is no process, log or node to take care of.
            with suppress(Conflict):
                self._runs.move(child, _S.CANCELED, message="", **warning)
                return
        if warning:
            self._runs.update(child.id, **warning)
        self._tools.controller.cancel(child.id)
        if child.status not in _WAITING:
            cancel_descendants(self._runs, self._tools.controller, child)


def may_be_stopped(status: RunStatus) -> bool:
    """Whether a run with that status is neither ended nor being canceled."""
    return not status.is_terminal and status is not RunStatus.CANCEL_REQUESTED
