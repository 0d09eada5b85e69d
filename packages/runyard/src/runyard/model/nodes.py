from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class NodeState(StrEnum):
    PREPARING = "preparing"
    IDLE = "idle"
    RUNNING = "running"
    UNUSABLE = "unusable"
    LEAVING = "leaving"
    PREEMPTED = "preempted"


@dataclass(frozen=True)
class Node:
    """One slot of a cluster. `run_id` is the run that holds it, if any."""

    workspace: str
    cluster: str
    name: str
    address: str
    state: NodeState
    since: datetime
    run_id: str | None = None
