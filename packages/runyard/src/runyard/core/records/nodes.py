from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from runyard.core.definitions.fields import JsonObject, read_once
from runyard.core.definitions.node_report import NodeReport
from runyard.core.records.runs import AttemptId

DEFAULT_IDLE_SECONDS = 1800
"""Default time after which a cluster removes an idle node."""


class NodeState(StrEnum):
    PREPARING = "preparing"
    IDLE = "idle"
    RUNNING = "running"
    UNUSABLE = "unusable"
    LEAVING = "leaving"
    PREEMPTED = "preempted"


@dataclass(frozen=True)
class Node:
    """One node of a cluster. `run_id` is the run that holds it, if any."""

    workspace: str
    cluster: str
    name: str
    address: str
    state: NodeState
    since: datetime
    run_id: str | None = None
    gpus: tuple[str, ...] | None = None
    """GPUs of the run that holds the node; None if the platform divides those of this machine."""


@dataclass(frozen=True)
class NodeAllocation:
    """The nodes of a run: all that it asked for, or none and the reason why it waits."""

    nodes: tuple[Node, ...] = ()
    most_nodes: int = 1
    waits_for: str = ""


class NodeTaskState(StrEnum):
    """States in their order; a node task never goes back to an earlier one."""

    READY = "ready"
    """Code, environment, data and ports are ready on its node. It waits for the other nodes."""
    RUNNING = "running"
    DONE = "done"
    """Its essential processes have succeeded, or it has none; others, such as a parameter server, still run."""
    FAILING = "failing"
    """It has failed and reports why; its output is still being uploaded."""
    ENDED = "ended"
    """All its processes have ended and all its output is uploaded."""


@dataclass(frozen=True)
class NodeTask:
    """The share of one node in an attempt on several nodes. `facts` merges what its supervisor has reported."""

    attempt_id: AttemptId
    node: int
    state: NodeTaskState
    at: datetime
    facts: JsonObject = field(default_factory=dict)

    @read_once
    def report(self) -> NodeReport:
        """The facts as a typed report."""
        return NodeReport.of_part(self.state.value, self.facts)
