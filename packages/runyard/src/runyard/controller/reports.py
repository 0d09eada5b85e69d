from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from runyard.errors import Conflict, InvalidArgument
from runyard.model.runs import NEXT, AttemptId, RunId, RunRecord, RunStatus, run_of
from runyard.ports.blobs import LogStore
from runyard.ports.clock import Clock
from runyard.ports.stores import RunStore
from runyard.services.children import close_open_children
from runyard.services.places import Places

_OUTCOMES = {"completed": RunStatus.COMPLETED, "failed": RunStatus.FAILED, "canceled": RunStatus.CANCELED}
_EXIT_FACTS = ("exit_code", "signal", "oom", "phase", "rank", "tail", "undelivered")
_WISHED_END = "wished_end"
_MOST_TRIES = 20
Report = Mapping[str, Any]


def wished_end(status: RunStatus) -> Mapping[str, Any] | None:
    """The exit facts of a run that is being stopped and shall then show this end; Canceled needs none."""
    return None if status is RunStatus.CANCELED else {_WISHED_END: status.value}


class Reports:
    """Applies what supervisors tell. Each report may come twice, and late; a run that has ended stays as it is."""

    def __init__(self, runs: RunStore, logs: LogStore, places: Places, clock: Clock) -> None:
        self._runs, self._logs, self._places, self._clock = runs, logs, places, clock
        self._steps: Mapping[str, Callable[[RunRecord, Report], RunRecord]] = {
            "preparing": self._preparing,
            "prepared": self._prepared,
            "running": self._running,
            "finalizing": self._finalizing,
            "ended": self._ended,
        }

    def take(self, attempt_id: AttemptId, report: Report) -> RunRecord:
        """The run after the report. NotFound for an unknown run; an attempt that is over changes nothing."""
        state = str(report.get("state"))
        if state not in self._steps:
            raise InvalidArgument(f"state must be one of {', '.join(self._steps)}, got {state!r}.")
        step = self._steps[state]
        return self._guarded(run_of(attempt_id), lambda run: step(run, report) if run.ticket == attempt_id else run)

    def fail(self, run_id: RunId, code: str, message: str) -> RunRecord:
        """End a run that no supervisor can end."""
        report = {"outcome": "failed", "error": {"code": code, "message": message}}
        return self._guarded(run_id, lambda run: self._ended(run, report))

    def fail_for_user(self, run_id: RunId, message: str) -> RunRecord:
        """End a run that its user can put right."""
        return self.fail(run_id, "UserError", message)

    def cancel(self, run_id: RunId) -> RunRecord:
        """End a run of which nothing is left, or nothing has started."""
        return self._guarded(run_id, lambda run: self._ended(run, {"outcome": "canceled"}))

    def _guarded(self, run_id: RunId, step: Callable[[RunRecord], RunRecord]) -> RunRecord:
        for _ in range(_MOST_TRIES):
            run = self._runs.get(run_id)
            if run.status.is_terminal:
                return run
            try:
                return step(run)
            except Conflict:
                continue  # a cancel or another report was first: look again
        raise Conflict(f"Run {run_id} is being changed by others all the time.", hint="Try again.")

    def _preparing(self, run: RunRecord, report: Report) -> RunRecord:
        return self._runs.update(run.id, message=str(report.get("message") or ""))

    def _prepared(self, run: RunRecord, report: Report) -> RunRecord:
        return self._runs.update(run.id, environment_lock=str(report.get("lock") or ""))

    def _running(self, run: RunRecord, report: Report) -> RunRecord:
        if RunStatus.RUNNING not in NEXT[run.status]:
            return run
        started_at = datetime.fromisoformat(report["started_at"]) if report.get("started_at") else self._clock.now()
        lock = str(report.get("lock") or run.environment_lock)
        return self._runs.move(run, RunStatus.RUNNING, started_at=started_at, environment_lock=lock, message="")

    def _finalizing(self, run: RunRecord, report: Report) -> RunRecord:
        message = str(report.get("message") or "")
        if RunStatus.FINALIZING in NEXT[run.status]:
            return self._runs.move(run, RunStatus.FINALIZING, message=message)
        return self._runs.update(run.id, message=message) if message else run

    def _ended(self, run: RunRecord, report: Report) -> RunRecord:
        """What was delivered is on disk, and its nodes are free, before the run is seen to have ended."""
        self._logs.seal(run.id)
        if run.nodes:
            self._places.release(run)
        wish = (run.exit_facts or {}).get(_WISHED_END)
        status = RunStatus(wish) if wish else _OUTCOMES[report["outcome"]]
        changes: dict[str, Any] = {
            "message": "",
            "exit_facts": {name: report.get(name) for name in _EXIT_FACTS},
            "warnings": (*run.warnings, *_warnings(run, report)),
        }
        if report.get("error") and not wish:
            changes["error"] = self._error(report)
        if status not in NEXT[run.status]:
            status = RunStatus.FAILED if status is RunStatus.COMPLETED else status
        ended = self._runs.move(run, status, **changes)
        close_open_children(self._runs, ended)
        return ended

    def _error(self, report: Report) -> dict[str, Any]:
        given = report["error"]
        facts = {
            name: report[name] for name in ("exit_code", "signal", "phase", "rank") if report.get(name) is not None
        }
        tail = report.get("tail")
        return {
            "error": {
                "code": str(given.get("code") or "UserError"),
                "message": str(given.get("message") or ""),
                "messageParameters": {name: str(value) for name, value in facts.items()},
                "details": [{"code": "LastLines", "message": tail}] if tail else [],
            },
            "time": self._clock.now().isoformat().replace("+00:00", "Z"),
        }


def _warnings(run: RunRecord, report: Report) -> list[str]:
    dropped = f"{run.dropped_points} logged points could not be written and were dropped."
    told = (text for text in map(str, report.get("warnings") or ()) if text not in run.warnings)
    return [*told, *([dropped] if run.dropped_points else [])]
