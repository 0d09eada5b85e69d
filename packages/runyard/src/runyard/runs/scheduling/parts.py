from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from runyard.core.definitions.fields import shown
from runyard.core.definitions.report import NodeReport
from runyard.errors import InvalidArgument
from runyard.model.parts import Part, PartState
from runyard.model.runs import AttemptId, RunRecord
from runyard.planning.gathered_end import end_report, said_while_stopping
from runyard.planning.gathering import STOP_GRACE_SECONDS, Decision, decide, lost_part
from runyard.ports.blobs import LogStore
from runyard.ports.clock import Clock
from runyard.ports.stores import PartStore
from runyard.runs.history.rank_logs import rank_logs
from runyard.runs.scheduling.stopping import Stopping

PART_STATES = frozenset(state.value for state in PartState)
_TAIL_BYTES, _TAIL_LINES = 64 << 10, 20
_STATE_ORDER = list(PartState)


@dataclass(frozen=True)
class Gathered:
    """State of an attempt, worked out from the reports of all its node tasks."""

    decision: Decision = field(default_factory=Decision)
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


class Parts:
    """Stores the reports of an attempt's node tasks and stops the other tasks once one has failed.

    Reports may come in any order and more than once.
    """

    def __init__(self, store: PartStore, logs: LogStore, stopper: Stopping, clock: Clock) -> None:
        self._store, self._logs, self._stopper, self._clock = store, logs, stopper, clock

    def take(self, run: RunRecord, report: NodeReport) -> Gathered:
        """Store a report whose state is in TASK_STATES. Raises InvalidArgument for an unknown node."""
        facts = {name: value for name, value in report.raw.items() if name not in ("state", "node")}
        check_node(run, report)
        state = PartState(report.state)
        return self._put(run, Part(AttemptId(run.ticket), report.node, state, self._clock.now(), facts))

    def lose(self, run: RunRecord, node: int, why: str) -> Gathered:
        """Record that the task's node is gone."""
        return self._put(run, lost_part(AttemptId(run.ticket), node, self._clock.now(), why))

    def summary(self, run: RunRecord) -> Gathered:
        """State of the attempt from what is stored; stops tasks that should stop. Safe to repeat."""
        return self._summarized(run, list(self._store.list(AttemptId(run.ticket))))

    def known(self, run: RunRecord) -> Mapping[int, Part]:
        return {task.node: task for task in self._store.list(AttemptId(run.ticket))}

    def _put(self, run: RunRecord, task: Part) -> Gathered:
        # Nodes that wait for the roster repeat their report: do not wait for the database's only writer each time.
        known = list(self._store.list(task.attempt_id))
        rank = _STATE_ORDER.index(task.state)
        if not any(one.node == task.node and _STATE_ORDER.index(one.state) >= rank for one in known):
            known = list(self._store.put(task))
        return self._summarized(run, known)

    def _summarized(self, run: RunRecord, tasks: list[Part]) -> Gathered:
        decision = decide(len(run.nodes), tasks)
        if decision.stop:
            self._stopper.stop(run, grace=timedelta(seconds=STOP_GRACE_SECONDS), end_as=decision.stop)
        if decision.outcome is None:
            failing = decision.cause if decision.stop == "failed" else None
            return Gathered(decision, message=said_while_stopping(failing, run.nodes) if failing is not None else "")
        end = end_report(decision, tasks, run.nodes)
        if decision.cause is not None:
            end = replace(end, tail=end.tail or self._last_lines(run, decision.cause.report))
        return Gathered(decision, end)

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
