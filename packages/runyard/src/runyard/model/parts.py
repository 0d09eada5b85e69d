from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from runyard.model.runs import AttemptId


class PartState(StrEnum):
    """In this order; a part never goes back."""

    READY = "ready"
    """Everything is at hand on its node: code, environment, data, ports. It waits for the other nodes."""
    RUNNING = "running"
    DONE = "done"
    """Its essential processes have ended well, or it never had one; others, such as a parameter server, go on."""
    FAILING = "failing"
    """It has failed by itself, and says how; what it wrote is still to be delivered."""
    ENDED = "ended"
    """Nothing of it runs any more, and all it wrote has been delivered."""


@dataclass(frozen=True)
class Part:
    """One node's share of an attempt that has several. `facts` is what its supervisor said last of each state."""

    attempt_id: AttemptId
    node: int
    state: PartState
    at: datetime
    facts: Mapping[str, Any] = field(default_factory=dict)
