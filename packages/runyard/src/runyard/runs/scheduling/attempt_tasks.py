import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from runyard.compute.clusters import Clusters
from runyard.core.definitions.fields import shown
from runyard.core.definitions.node_report import NodeReport
from runyard.core.errors import EngineError, InvalidArgument, NotFound
from runyard.core.ports.blobs import LogStore
from runyard.core.ports.clock import Clock
from runyard.core.ports.engine import ticket_of
from runyard.core.ports.stores import NodeTaskStore, RunStore
from runyard.core.records.nodes import NodeTask, NodeTaskState
from runyard.core.records.runs import AttemptId, RunRecord, RunStatus
from runyard.runs.history.logs import rank_logs
from runyard.runs.scheduling.attempt_outcome import (
    STOP_GRACE_SECONDS,
    AttemptDecision,
    decide_attempt,
    end_report,
    lost_task,
    stopping_message,
)

TASK_STATES = frozenset(state.value for state in NodeTaskState)
_TAIL_BYTES, _TAIL_LINES = 64 << 10, 20
_STATE_ORDER = list(NodeTaskState)


@dataclass(frozen=True)
class AttemptSummary:
    """State of an attempt, worked out from the reports of all its node tasks."""

    decision: AttemptDecision = field(default_factory=AttemptDecision)
    end: NodeReport | None = None
    """The end of the attempt as one report; None while a task is running."""
    message: str = ""
    """Shown to users while tasks are being stopped because one has failed."""


def check_node(run: RunRecord, report: NodeReport) -> None:
    """Raise InvalidArgument for a node number outside the run's allocation."""
    if not 0 <= report.node < len(run.nodes):
        raise InvalidArgument(
            f"node must be from 0 to {len(run.nodes) - 1} for run {run.id!r}, got {shown(report.node)}."
        )


class AttemptStopper:
    """Asks the engine to stop all node tasks of an attempt; repeats it where the engine could not be reached."""

    def __init__(self, clusters: Clusters, runs: RunStore) -> None:
        self._clusters, self._runs = clusters, runs
        self._canceled: set[str] = set()

    def cancel(self, run: RunRecord, grace: timedelta | None = None) -> None:
        """Cancel the attempt with the grace period of the run, or the given one."""
        if self.stop(run, grace=_grace(run) if grace is None else grace, end_as="canceled"):
            self._canceled.add(run.ticket)

    def stop(self, run: RunRecord, *, grace: timedelta, end_as: str) -> bool:
        """Stop all tasks. False if the engine could not be reached: supervisors learn it with their next report."""
        try:
            self._clusters.site_of(run).engine.cancel(ticket_of(run), grace=grace, end_as=end_as)
        except EngineError:
            return False
        return True

    def cancel_pending(self, unfinished: Iterable[RunRecord]) -> None:
        """Cancel runs in CancelRequested whose engine has not been asked yet."""
        canceled = [run for run in unfinished if run.status is RunStatus.CANCEL_REQUESTED and run.ticket]
        self._canceled &= {run.ticket for run in canceled}
        for run in canceled:
            if run.ticket not in self._canceled:
                with contextlib.suppress(NotFound):
                    self.cancel(self._runs.get(run.id))


class AttemptTasks:
    """Stores the reports of an attempt's node tasks and stops the other tasks once one has failed.

    Reports may come in any order and more than once.
    """

    def __init__(self, store: NodeTaskStore, logs: LogStore, stopper: AttemptStopper, clock: Clock) -> None:
        self._store, self._logs, self._stopper, self._clock = store, logs, stopper, clock

    def take(self, run: RunRecord, report: NodeReport) -> AttemptSummary:
        """Store a report whose state is in TASK_STATES. Raises InvalidArgument for an unknown node."""
        facts = {name: value for name, value in report.raw.items() if name not in ("state", "node")}
        check_node(run, report)
        state = NodeTaskState(report.state)
        return self._put(run, NodeTask(AttemptId(run.ticket), report.node, state, self._clock.now(), facts))

    def lose(self, run: RunRecord, node: int, why: str) -> AttemptSummary:
        """Record that the task's node is gone."""
        return self._put(run, lost_task(AttemptId(run.ticket), node, self._clock.now(), why))

    def summary(self, run: RunRecord) -> AttemptSummary:
        """State of the attempt from what is stored; stops tasks that should stop. Safe to repeat."""
        return self._summarized(run, list(self._store.list(AttemptId(run.ticket))))

    def known(self, run: RunRecord) -> Mapping[int, NodeTask]:
        return {task.node: task for task in self._store.list(AttemptId(run.ticket))}

    def _put(self, run: RunRecord, task: NodeTask) -> AttemptSummary:
        # Nodes that wait for the roster repeat their report: do not wait for the database's only writer each time.
        known = list(self._store.list(task.attempt_id))
        rank = _STATE_ORDER.index(task.state)
        if not any(one.node == task.node and _STATE_ORDER.index(one.state) >= rank for one in known):
            known = list(self._store.put(task))
        return self._summarized(run, known)

    def _summarized(self, run: RunRecord, tasks: list[NodeTask]) -> AttemptSummary:
        decision = decide_attempt(len(run.nodes), tasks)
        if decision.stop:
            self._stopper.stop(run, grace=timedelta(seconds=STOP_GRACE_SECONDS), end_as=decision.stop)
        if decision.outcome is None:
            failing = decision.cause if decision.stop == "failed" else None
            return AttemptSummary(decision, message=stopping_message(failing, run.nodes) if failing is not None else "")
        end = end_report(decision, tasks, run.nodes)
        if decision.cause is not None:
            end = replace(end, tail=end.tail or self._last_lines(run, decision.cause.report))
        return AttemptSummary(decision, end)

    def _last_lines(self, run: RunRecord, cause: NodeReport) -> str:
        """Last lines of the failed rank's log, for a supervisor that could not send them."""
        sizes = self._logs.sizes(run.id)
        log = cause.log
        if log not in sizes:
            log = next((one.path for one in rank_logs(sizes, run.definition) if one.rank == cause.rank), "")
        if not log:
            return ""
        start = max(0, sizes[log] - _TAIL_BYTES)
        text = self._logs.read(run.id, log, start).decode("utf-8", "replace")
        return "\n".join(text.splitlines()[-_TAIL_LINES:])


_DEFAULT_GRACE_SECONDS = 10.0


def _grace(run: RunRecord) -> timedelta:
    given = run.definition.runyard.cancel_grace_seconds
    return timedelta(seconds=_DEFAULT_GRACE_SECONDS if given is None else given)
