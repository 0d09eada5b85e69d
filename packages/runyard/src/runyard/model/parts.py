from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from runyard.core.definitions.fields import JsonObject, read_once
from runyard.core.definitions.report import NodeReport
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
    facts: JsonObject = field(default_factory=dict)

    @read_once
    def told(self) -> NodeReport:
        """The facts, each of its type."""
        return NodeReport.of_part(self.state.value, self.facts)
