from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

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
class Gang:
    """The nodes of a run: all that it asked for, or none and the reason why it waits."""

    nodes: tuple[Node, ...] = ()
    most_nodes: int = 1
    waits_for: str = ""
