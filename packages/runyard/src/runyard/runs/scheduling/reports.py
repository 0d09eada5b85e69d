from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from runyard.core.definitions.report import NodeReport, ReportedError
from runyard.errors import Conflict
from runyard.model.runs import NEXT, AttemptId, RunEvent, RunId, RunRecord, RunStatus, run_of
from runyard.planning.distribution import Kind, kind_of
from runyard.planning.gathered_end import end_of_one_node
from runyard.planning.gathering import Decision, lost_part
from runyard.ports.blobs import LogStore
from runyard.ports.clock import Clock
from runyard.ports.stores import RunStore
from runyard.runs.children import close_open_children
from runyard.runs.scheduling.outputs import GangOutputs
from runyard.runs.scheduling.parts import PART_STATES, Gathered, Parts, check_node
from runyard.runs.scheduling.places import Places
from runyard.runs.scheduling.restarts import Restart, kept_facts, restart_after

_OUTCOMES = {"completed": RunStatus.COMPLETED, "failed": RunStatus.FAILED, "canceled": RunStatus.CANCELED}
_EXIT_FACTS = ("exit_code", "signal", "oom", "phase", "rank", "tail", "undelivered")
_WISHED_END = "wished_end"
_MOST_TRIES = 20
_OF_ENVIRONMENTS = ("cause", "said")
"""What an error of an environment that could not be made tells programs."""
_MOST_SAID = 2000
_SCRIPT_LOGS = "azureml-logs/70_"
_CANCELED = NodeReport("ended", outcome="canceled")


def wished_end(run: RunRecord, status: RunStatus) -> Mapping[str, Any] | None:
    """The exit facts of a run that is being stopped and shall then show this end; Canceled needs none."""
    return run.exit_facts if status is RunStatus.CANCELED else {**(run.exit_facts or {}), _WISHED_END: status.value}


@dataclass(frozen=True)
class Taken:
    """The run after a report, and what its attempt's parts are to do."""

    run: RunRecord
    decision: Decision = Decision()  # noqa: RUF009  frozen


class Reports:
    """Applies what supervisors tell. Each report may come twice, and late; a run that has ended stays as it is."""

    def __init__(
        self, runs: RunStore, logs: LogStore, places: Places, parts: Parts, outputs: GangOutputs, clock: Clock
    ) -> None:
        self._runs, self._logs, self._places, self._parts = runs, logs, places, parts
        self._outputs, self._clock = outputs, clock
        self._steps: Mapping[str, Callable[[RunRecord, NodeReport], RunRecord]] = {
            "preparing": self._preparing,
            "prepared": self._prepared,
            "running": self._running,
            "finalizing": self._finalizing,
            "ended": self._ended,
        }

    def take(self, attempt_id: AttemptId, report: NodeReport) -> Taken:
        """NotFound for an unknown run, InvalidArgument for a node that it has not; an attempt that is over changes
        nothing."""
        return self._guarded(run_of(attempt_id), lambda run: self._taken(run, attempt_id, report))

    def lose(self, run_id: RunId, attempt: str, node: int, why: str) -> RunRecord:
        """A part of which nothing more will be heard: its node is gone."""
        return self._guarded(
            run_id, lambda run: self._lost(run, node, why) if run.ticket == attempt else Taken(run)
        ).run

    def settle(self, run_id: RunId) -> RunRecord:
        """Do what follows from all that the parts of a gang have told."""
        return self._guarded(run_id, lambda run: self._apply(run, self._parts.look(run))).run

    def _taken(self, run: RunRecord, attempt_id: AttemptId, report: NodeReport) -> Taken:
        if run.ticket != attempt_id:
            return Taken(run)
        if run.is_handed_over:  # the engine's queue has let it go
            run = self._runs.move(run, RunStatus.STARTING, message="Starting.")
        if len(run.nodes) > 1:
            return self._of_gang(run, report)
        if report.state == "ended" and kind_of(run.definition) is not Kind.SINGLE:
            report = end_of_one_node(report, run.nodes[0] if run.nodes else run.target)
        return Taken(self._steps[report.state](run, report) if report.state in self._steps else run)

    def _of_gang(self, run: RunRecord, report: NodeReport) -> Taken:
        if report.state not in PART_STATES:
            gathered = self._parts.look(run)
            return self._apply(run if gathered.said else self._said(run, report), gathered)
        gathered = self._parts.take(run, report)
        if report.state == "running" and report.node == 0:
            run = self._running(run, report)
        return self._apply(run, gathered)

    def _said(self, run: RunRecord, report: NodeReport) -> RunRecord:
        """One node prepares or finishes; what the others do is not told by it."""
        check_node(run, report)
        told = f"{run.nodes[report.node]}: {report.message}"
        return self._runs.update(run.id, message=told) if report.message else run

    def _lost(self, run: RunRecord, node: int, why: str) -> Taken:
        if len(run.nodes) > 1:
            return self._apply(run, self._parts.lose(run, node, why))
        if run.status is RunStatus.CANCEL_REQUESTED:
            return Taken(self._ended(run, _CANCELED))
        part = lost_part(AttemptId(run.ticket), node, self._clock.now(), why)
        return Taken(self._ended(run, part.told))

    def _apply(self, run: RunRecord, gathered: Gathered) -> Taken:
        if gathered.end is not None:
            end = self._as_wished(run, gathered.end)
            run = self._ended(run, end if restart_after(run, end) else self._outputs.completed(run, end))
        elif gathered.said and run.message != gathered.said and run.status is not RunStatus.CANCEL_REQUESTED:
            run = self._runs.update(run.id, message=gathered.said)
        return Taken(run, gathered.decision)

    def _as_wished(self, run: RunRecord, end: NodeReport) -> NodeReport:
        """A gang that was canceled is canceled, whatever its nodes made of it."""
        return replace(end, outcome="canceled", error=None) if run.status is RunStatus.CANCEL_REQUESTED else end

    def fail(self, run_id: RunId, code: str, message: str, **facts: Any) -> RunRecord:
        """End a run that no supervisor can end. Of the `facts`, those that runs tell programs are kept."""
        told = {name: str(facts.get(name) or "") for name in _OF_ENVIRONMENTS}
        report = NodeReport("ended", outcome="failed", error=ReportedError(code, message, **told))
        return self._guarded(run_id, lambda run: Taken(self._ended(run, report))).run

    def fail_for_user(self, run_id: RunId, message: str) -> RunRecord:
        """End a run that its user can put right."""
        return self.fail(run_id, "UserError", message)

    def cancel(self, run_id: RunId) -> RunRecord:
        """End a run of which nothing is left, or nothing has started."""
        return self._guarded(run_id, lambda run: Taken(self._ended(run, _CANCELED))).run

    def _guarded(self, run_id: RunId, step: Callable[[RunRecord], Taken]) -> Taken:
        for _ in range(_MOST_TRIES):
            run = self._runs.get(run_id)
            if run.status.is_terminal:
                return Taken(run)
            try:
                return step(run)
            except Conflict:
                continue  # a cancel or another report was first: look again
        raise Conflict(f"Run {run_id} is being changed by others all the time.", hint="Try again.")

    def _preparing(self, run: RunRecord, report: NodeReport) -> RunRecord:
        if RunStatus.RUNNING not in NEXT[run.status]:
            return run  # sent again, or late: the message of a running run is another
        return self._runs.update(run.id, message=report.message)

    def _prepared(self, run: RunRecord, report: NodeReport) -> RunRecord:
        return self._runs.update(run.id, environment_lock=report.lock)

    def _running(self, run: RunRecord, report: NodeReport) -> RunRecord:
        if RunStatus.RUNNING not in NEXT[run.status]:
            return run
        started_at, lock = report.started_at or self._clock.now(), report.lock or run.environment_lock
        return self._runs.move(run, RunStatus.RUNNING, started_at=started_at, environment_lock=lock, message="")

    def _finalizing(self, run: RunRecord, report: NodeReport) -> RunRecord:
        message = report.message
        if RunStatus.FINALIZING in NEXT[run.status]:
            return self._runs.move(run, RunStatus.FINALIZING, message=message)
        return self._runs.update(run.id, message=message) if message else run

    def _ended(self, run: RunRecord, report: NodeReport) -> RunRecord:
        """What was delivered is on disk, and its nodes are free, before the run is seen to have ended."""
        self._logs.seal(run.id)
        if run.nodes or run.status is RunStatus.QUEUED:  # a pool may be getting nodes for it
            self._places.release(run)
        restart = restart_after(run, report)
        if restart is not None:
            return self._started_again(run, restart)
        wish = (run.exit_facts or {}).get(_WISHED_END)
        status = RunStatus(wish) if wish else _OUTCOMES[report.outcome]
        changes: dict[str, Any] = {
            "message": "",
            "exit_facts": {name: getattr(report, name) for name in _EXIT_FACTS} | kept_facts(run),
            "warnings": _warnings(run, report),
        }
        if report.error is not None and not wish:
            changes["error"] = self._error(report, report.error)
        if status not in NEXT[run.status]:
            status = RunStatus.FAILED if status is RunStatus.COMPLETED else status
        ended = self._runs.move(run, status, **changes)
        close_open_children(self._runs, ended)
        return ended

    def _started_again(self, run: RunRecord, restart: Restart) -> RunRecord:
        """The attempt is given up: without its ticket, nothing of it is let in any more."""
        waiting = self._runs.move(
            run,
            RunStatus.QUEUED,
            ticket="",
            nodes=(),
            message=restart.text,
            warnings=(restart.text,),
            exit_facts=restart.facts(self._log_starts(run, restart)),
        )
        self._runs.add_event(run.id, RunEvent(self._clock.now(), "restart", restart.text))
        return waiting

    def _log_starts(self, run: RunRecord, restart: Restart) -> Mapping[str, int]:
        """Logs go on where the attempt before left them, below a line that says so."""
        line = f"\n--- {restart.text}\n".encode()
        sizes = self._logs.sizes(run.id)
        written = {path for path in sizes if path.startswith(_SCRIPT_LOGS)}
        return {
            path: self._logs.append(run.id, path, size, line) if path in written else size
            for path, size in sizes.items()
        }

    def _error(self, report: NodeReport, given: ReportedError) -> dict[str, Any]:
        told = {name: getattr(report, name) for name in ("exit_code", "signal", "phase", "rank")}
        facts = {name: value for name, value in told.items() if value is not None}
        facts |= {name: value[:_MOST_SAID] for name in _OF_ENVIRONMENTS if (value := getattr(given, name))}
        tail = report.tail
        return {
            "error": {
                "code": given.code or "UserError",
                "message": given.message,
                "messageParameters": {name: str(value) for name, value in facts.items()},
                "details": [{"code": "LastLines", "message": tail}] if tail else [],
            },
            "time": self._clock.now().isoformat().replace("+00:00", "Z"),
        }


def _warnings(run: RunRecord, report: NodeReport) -> list[str]:
    dropped = f"{run.dropped_points} logged points could not be written and were dropped."
    told = (text for text in report.warnings if text not in run.warnings)
    return [*told, *([dropped] if run.dropped_points else [])]
