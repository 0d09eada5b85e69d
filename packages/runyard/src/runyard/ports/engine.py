from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import NewType, Protocol

from runyard.model.plan import LaunchPlan

Ticket = NewType("Ticket", str)


class JobPhase(StrEnum):
    ALIVE = "alive"
    LOST = "lost"


@dataclass(frozen=True)
class Capabilities:
    max_nodes: int
    gpus: tuple[str, ...] = ()
    shares_files: bool = False
    """Nodes see the service's own disk, so files are handed over by path."""


class Engine(Protocol):
    """Every method returns promptly; none waits for a job."""

    capabilities: Capabilities

    def submit(self, plan: LaunchPlan) -> Ticket:
        """Idempotent by `plan.attempt_id`: asking twice starts one job."""

    def observe(self, tickets: Sequence[Ticket]) -> Mapping[Ticket, JobPhase]:
        """One question for many jobs. An unknown ticket is LOST, never an error."""

    def recover(self, ticket: Ticket) -> None:
        """Have what a lost supervisor left behind delivered and its processes ended; it reports the end itself."""

    def cancel(self, ticket: Ticket, *, grace: timedelta) -> None:
        """Ask a job to stop. A finished or unknown ticket is left alone."""
