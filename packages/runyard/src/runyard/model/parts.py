from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from runyard.core.definitions.fields import JsonObject, read_once
from runyard.core.definitions.report import NodeReport
from runyard.model.runs import AttemptId


class PartState(StrEnum):
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
class Part:
    """The share of one node in an attempt on several nodes. `facts` merges what its supervisor has reported."""

    attempt_id: AttemptId
    node: int
    state: PartState
    at: datetime
    facts: JsonObject = field(default_factory=dict)

    @read_once
    def report(self) -> NodeReport:
        """The facts as a typed report."""
        return NodeReport.of_part(self.state.value, self.facts)
