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
_ORDER = list(PartState)


@dataclass(frozen=True)
class Gathered:
    """What the parts of an attempt tell, all together."""

    decision: Decision = field(default_factory=Decision)
    end: NodeReport | None = None
    """The end of the attempt, told as a single node tells it; None while a part goes on."""
    said: str = ""
    """What goes on, for people: a part has failed, and the rest are being stopped."""


def check_node(run: RunRecord, report: NodeReport) -> None:
    """Raises InvalidArgument for a node that the run has not."""
    if not 0 <= report.node < len(run.nodes):
        raise InvalidArgument(
            f"node must be from 0 to {len(run.nodes) - 1} for run {run.id!r}, got {shown(report.node)}."
        )


class Parts:
    """Takes in what the nodes of an attempt tell, in any order and any number of times, and has the rest stopped."""

    def __init__(self, parts: PartStore, logs: LogStore, stopping: Stopping, clock: Clock) -> None:
        self._parts, self._logs, self._stopping, self._clock = parts, logs, stopping, clock

    def take(self, run: RunRecord, report: NodeReport) -> Gathered:
        """Of a state in PART_STATES. InvalidArgument for a node that the run has not."""
        facts = {name: value for name, value in report.raw.items() if name not in ("state", "node")}
        check_node(run, report)
        state = PartState(report.state)
        return self._put(run, Part(AttemptId(run.ticket), report.node, state, self._clock.now(), facts))

    def lose(self, run: RunRecord, node: int, why: str) -> Gathered:
        """Nothing more will be heard of this part."""
        return self._put(run, lost_part(AttemptId(run.ticket), node, self._clock.now(), why))

    def look(self, run: RunRecord) -> Gathered:
        """What follows from what is known: for those who were not told since the service was away."""
        return self._settled(run, list(self._parts.list(AttemptId(run.ticket))))

    def known(self, run: RunRecord) -> Mapping[int, Part]:
        return {part.node: part for part in self._parts.list(AttemptId(run.ticket))}

    def _put(self, run: RunRecord, part: Part) -> Gathered:
        # Nodes that wait for the roster ask again and again: that must not wait for the database's one writer.
        known = list(self._parts.list(part.attempt_id))
        if not any(one.node == part.node and _ORDER.index(one.state) >= _ORDER.index(part.state) for one in known):
            known = list(self._parts.put(part))
        return self._settled(run, known)

    def _settled(self, run: RunRecord, parts: list[Part]) -> Gathered:
        decision = decide(len(run.nodes), parts)
        if decision.stop:
            self._stopping.stop(run, grace=timedelta(seconds=STOP_GRACE_SECONDS), end_as=decision.stop)
        if decision.outcome is None:
            failing = decision.cause if decision.stop == "failed" else None
            return Gathered(decision, said=said_while_stopping(failing, run.nodes) if failing is not None else "")
        end = end_report(decision, parts, run.nodes)
        if decision.cause is not None:
            end = replace(end, tail=end.tail or self._last_lines(run, decision.cause.told))
        return Gathered(decision, end)

    def _last_lines(self, run: RunRecord, cause: NodeReport) -> str:
        """From what was delivered of the rank's log, where its supervisor could not tell."""
        sizes = self._logs.sizes(run.id)
        log = cause.log
        if log not in sizes:
            log = next((one.path for one in rank_logs(sizes, run.definition) if one.rank == cause.rank), "")
        if not log:
            return ""
        start = max(0, sizes[log] - _TAIL_BYTES)
        text = self._logs.read(run.id, log, start).decode("utf-8", "replace")
        return "\n".join(text.splitlines()[-_TAIL_LINES:])
