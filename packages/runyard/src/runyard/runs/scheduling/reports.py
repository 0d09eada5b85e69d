from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from runyard.compute.clusters import Clusters
from runyard.core.definitions.node_report import NodeReport, ReportedError
from runyard.core.errors import Conflict, RunyardError
from runyard.core.ports.blobs import LogStore
from runyard.core.ports.clock import Clock
from runyard.core.ports.stores import RunStore
from runyard.core.principal import SERVICE, Principal
from runyard.core.records.runs import NEXT, AttemptId, RunEvent, RunId, RunRecord, RunStatus, run_of
from runyard.runs.children import close_interactive_children
from runyard.runs.launch.distribution import DistributionKind, distribution_kind
from runyard.runs.scheduling.attempt_outcome import AttemptDecision, lost_task, single_node_end_report
from runyard.runs.scheduling.attempt_tasks import TASK_STATES, AttemptSummary, AttemptTasks, check_node
from runyard.runs.scheduling.restarts import Restart, kept_facts, restart_after

_OUTCOMES = {"completed": RunStatus.COMPLETED, "failed": RunStatus.FAILED, "canceled": RunStatus.CANCELED}
_EXIT_FACTS = ("exit_code", "signal", "oom", "phase", "rank", "tail", "undelivered")
_REQUESTED_END = "wished_end"  # the name in stored exit facts
_MOST_TRIES = 20
_ENVIRONMENT_FACTS = ("cause", "said")
"""Facts that are kept of the error of a failed environment build."""
_LONGEST_OUTPUT = 2000
_SCRIPT_LOGS = "azureml-logs/70_"
_CANCELED = NodeReport("ended", outcome="canceled")


def requested_end(run: RunRecord, status: RunStatus) -> Mapping[str, Any] | None:
    """Exit facts of a run that is being stopped and has to end as `status`; Canceled needs none."""
    return run.exit_facts if status is RunStatus.CANCELED else {**(run.exit_facts or {}), _REQUESTED_END: status.value}


@dataclass(frozen=True)
class HandledReport:
    """The run after a report, and what its node tasks have to do."""

    run: RunRecord
    decision: AttemptDecision = AttemptDecision()  # noqa: RUF009  frozen


class OutputCompleter(Protocol):
    def complete(self, who: Principal, attempt_id: AttemptId, name: str, *, files: int, registers: bool) -> object:
        """Save the output of a run as a dataset, registered if asked for. Safe to repeat. Raises RunyardError."""


class MultiNodeOutputs:
    """Saves the outputs of a run on several nodes as datasets, once all nodes have ended."""

    def __init__(self, outputs: OutputCompleter | None) -> None:
        """`outputs` None: do not save outputs."""
        self._outputs = outputs

    def completed(self, run: RunRecord, end: NodeReport) -> NodeReport:
        """Save the outputs; returns `end`, changed to a failure if one could not be saved."""
        if self._outputs is None or end.outcome == "canceled":
            return end
        ended_well = end.outcome == "completed"
        for name, files in end.outputs.items():
            try:
                self._outputs.complete(SERVICE, AttemptId(run.ticket), name, files=files, registers=ended_well)
            except RunyardError as e:
                end = _with_failure(end, f"Output {name!r} was uploaded, but could not be saved as a dataset. {e}")
        return end


class ReportHandler:
    """Applies the reports of supervisors to runs. A report may come twice, or late; a finished run never changes."""

    def __init__(
        self,
        runs: RunStore,
        logs: LogStore,
        clusters: Clusters,
        tasks: AttemptTasks,
        outputs: MultiNodeOutputs,
        clock: Clock,
    ) -> None:
        self._runs, self._logs, self._clusters, self._tasks = runs, logs, clusters, tasks
        self._outputs, self._clock = outputs, clock
        self._steps: Mapping[str, Callable[[RunRecord, NodeReport], RunRecord]] = {
            "preparing": self._preparing,
            "prepared": self._prepared,
            "running": self._running,
            "finalizing": self._finalizing,
            "ended": self._ended,
        }

    def take(self, attempt_id: AttemptId, report: NodeReport) -> HandledReport:
        """Apply a report; one of an attempt that is over changes nothing.

        Raises NotFound for an unknown run and InvalidArgument for an unknown node.
        """
        return self._guarded(run_of(attempt_id), lambda run: self._handled(run, attempt_id, report))

    def lose(self, run_id: RunId, attempt: str, node: int, why: str) -> RunRecord:
        """Record that the node of a task is gone."""
        return self._guarded(
            run_id, lambda run: self._lost(run, node, why) if run.ticket == attempt else HandledReport(run)
        ).run

    def settle(self, run_id: RunId) -> RunRecord:
        """Apply what the stored reports of all node tasks come to. Safe to repeat."""
        return self._guarded(run_id, lambda run: self._apply(run, self._tasks.summary(run))).run

    def _handled(self, run: RunRecord, attempt_id: AttemptId, report: NodeReport) -> HandledReport:
        if run.ticket != attempt_id:
            return HandledReport(run)
        if run.is_handed_over:  # the engine's own queue has started it
            run = self._runs.move(run, RunStatus.STARTING, message="Starting.")
        if len(run.nodes) > 1:
            return self._handle_multi_node(run, report)
        if report.state == "ended" and distribution_kind(run.definition) is not DistributionKind.SINGLE:
            report = single_node_end_report(report, run.nodes[0] if run.nodes else run.target)
        return HandledReport(self._steps[report.state](run, report) if report.state in self._steps else run)

    def _handle_multi_node(self, run: RunRecord, report: NodeReport) -> HandledReport:
        if report.state not in TASK_STATES:
            summary = self._tasks.summary(run)
            return self._apply(run if summary.message else self._with_message(run, report), summary)
        summary = self._tasks.take(run, report)
        if report.state == "running" and report.node == 0:
            run = self._running(run, report)
        return self._apply(run, summary)

    def _with_message(self, run: RunRecord, report: NodeReport) -> RunRecord:
        """Show the message of one node; the status depends on all of them."""
        check_node(run, report)
        message = f"{run.nodes[report.node]}: {report.message}"
        return self._runs.update(run.id, message=message) if report.message else run

    def _lost(self, run: RunRecord, node: int, why: str) -> HandledReport:
        if len(run.nodes) > 1:
            return self._apply(run, self._tasks.lose(run, node, why))
        if run.status is RunStatus.CANCEL_REQUESTED:
            return HandledReport(self._ended(run, _CANCELED))
        task = lost_task(AttemptId(run.ticket), node, self._clock.now(), why)
        return HandledReport(self._ended(run, task.report))

    def _apply(self, run: RunRecord, summary: AttemptSummary) -> HandledReport:
        if summary.end is not None:
            end = self._as_requested(run, summary.end)
            run = self._ended(run, end if restart_after(run, end) else self._outputs.completed(run, end))
        elif summary.message and run.message != summary.message and run.status is not RunStatus.CANCEL_REQUESTED:
            run = self._runs.update(run.id, message=summary.message)
        return HandledReport(run, summary.decision)

    def _as_requested(self, run: RunRecord, end: NodeReport) -> NodeReport:
        """A canceled run ends as canceled, whatever its nodes report."""
        return replace(end, outcome="canceled", error=None) if run.status is RunStatus.CANCEL_REQUESTED else end

    def fail(self, run_id: RunId, code: str, message: str, **facts: Any) -> RunRecord:
        """Fail a run that has no supervisor to report its end. Of `facts`, those in _ENVIRONMENT_FACTS are kept."""
        kept = {name: str(facts.get(name) or "") for name in _ENVIRONMENT_FACTS}
        report = NodeReport("ended", outcome="failed", error=ReportedError(code, message, **kept))
        return self._guarded(run_id, lambda run: HandledReport(self._ended(run, report))).run

    def fail_for_user(self, run_id: RunId, message: str) -> RunRecord:
        """Fail a run with an error that its user can correct."""
        return self.fail(run_id, "UserError", message)

    def cancel(self, run_id: RunId) -> RunRecord:
        """End a run that has no processes, or none any more, as canceled."""
        return self._guarded(run_id, lambda run: HandledReport(self._ended(run, _CANCELED))).run

    def _guarded(self, run_id: RunId, step: Callable[[RunRecord], HandledReport]) -> HandledReport:
        for _ in range(_MOST_TRIES):
            run = self._runs.get(run_id)
            if run.status.is_terminal:
                return HandledReport(run)
            try:
                return step(run)
            except Conflict:
                continue  # a cancel or another report was first: read the run again
        raise Conflict(f"Run {run_id} is being changed by others all the time.", hint="Try again.")

    def _preparing(self, run: RunRecord, report: NodeReport) -> RunRecord:
        if RunStatus.RUNNING not in NEXT[run.status]:
            return run  # a repeated or late report must not replace the message of a running run
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
        """End the run. Its logs are sealed and its nodes released before anybody can see the end."""
        self._logs.seal(run.id)
        if run.nodes or run.status is RunStatus.QUEUED:  # a pool may be getting nodes for it
            self._clusters.release(run)
        restart = restart_after(run, report)
        if restart is not None:
            return self._restarted(run, restart)
        requested = (run.exit_facts or {}).get(_REQUESTED_END)
        status = RunStatus(requested) if requested else _OUTCOMES[report.outcome]
        changes: dict[str, Any] = {
            "message": "",
            "exit_facts": {name: getattr(report, name) for name in _EXIT_FACTS} | kept_facts(run),
            "warnings": _warnings(run, report),
        }
        if report.error is not None and not requested:
            changes["error"] = self._error(report, report.error)
        if status not in NEXT[run.status]:
            status = RunStatus.FAILED if status is RunStatus.COMPLETED else status
        passed = self._unreported_start(run, report)
        if passed:
            changes |= {"started_at": passed[0].at, "environment_lock": report.lock or run.environment_lock}
        ended = self._runs.move(run, status, passed, **changes)
        close_interactive_children(self._runs, ended)
        return ended

    def _unreported_start(self, run: RunRecord, report: NodeReport) -> Sequence[RunEvent]:
        """The start of a script that ended so soon that only its end was reported."""
        if report.started_at is None or RunStatus.RUNNING not in NEXT[run.status]:
            return ()
        # The clock of the node may be ahead, or behind.
        at = max(min(report.started_at, self._clock.now()), run.created_at)
        return [RunEvent(at, "status", RunStatus.RUNNING.value)]

    def _restarted(self, run: RunRecord, restart: Restart) -> RunRecord:
        """Queue the run again. Without its ticket the old attempt cannot write any more."""
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
        """Append a line about the restart to the script's logs; return where the next attempt begins in each log."""
        line = f"\n--- {restart.text}\n".encode()
        sizes = self._logs.sizes(run.id)
        written = {path for path in sizes if path.startswith(_SCRIPT_LOGS)}
        return {
            path: self._logs.append(run.id, path, size, line) if path in written else size
            for path, size in sizes.items()
        }

    def _error(self, report: NodeReport, given: ReportedError) -> dict[str, Any]:
        reported = {name: getattr(report, name) for name in ("exit_code", "signal", "phase", "rank")}
        facts = {name: value for name, value in reported.items() if value is not None}
        facts |= {name: value[:_LONGEST_OUTPUT] for name in _ENVIRONMENT_FACTS if (value := getattr(given, name))}
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
    new = (text for text in report.warnings if text not in run.warnings)
    return [*new, *([dropped] if run.dropped_points else [])]


def _with_failure(end: NodeReport, message: str) -> NodeReport:
    known = end.error or ReportedError("ServiceError")
    text = f"{known.message.rstrip('.')}. {message}" if end.error else message
    return replace(end, outcome="failed", error=replace(known, message=text))
