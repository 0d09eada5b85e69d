from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

DEFAULT_IDLE_SECONDS = 1800
"""After which a cluster lets an idle node go, where it was not told otherwise."""


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
    """Those given to the run that holds it; None where the platform shares out the machine's own."""


@dataclass(frozen=True)
class Gang:
    """All the nodes of a run, or none of them and what it waits for."""

    nodes: tuple[Node, ...] = ()
    most_nodes: int = 1
    waits_for: str = ""
