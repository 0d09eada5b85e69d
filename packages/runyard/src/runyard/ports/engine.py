from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any, NewType, Protocol

from runyard.model.assets import Asset
from runyard.model.nodes import Gang, Node
from runyard.model.plan import LaunchPlan
from runyard.model.runs import RunId, RunRecord

Ticket = NewType("Ticket", str)
"""A job, by its attempt and how many nodes it has: known before it is submitted, and again after a restart."""


def ticket_for(attempt_id: str, node_count: int) -> Ticket:
    return Ticket(f"{attempt_id}*{node_count}" if node_count > 1 else attempt_id)


def ticket_of(run: RunRecord) -> Ticket:
    """Of its present attempt."""
    return ticket_for(run.ticket, len(run.nodes))


class PartPhase(StrEnum):
    ALIVE = "alive"
    """A supervisor looks after it, or is about to."""
    LOST = "lost"
    """Its supervisor is gone, its node is there: `recover` helps."""
    GONE = "gone"
    """Its node is gone, and what lay there. `Observed.why` says what is known."""


@dataclass(frozen=True)
class Observed:
    """One node's share of an attempt, as the engine sees it."""

    phase: PartPhase
    why: str = ""


@dataclass(frozen=True)
class Capabilities:
    max_nodes: int
    gpus: tuple[str, ...] = ()
    shares_files: bool = False
    """Nodes see the service's own disk, so files are handed over by path."""


class Engine(Protocol):
    """Every method returns promptly; none waits for a job. EngineError where the engine cannot be reached."""

    capabilities: Capabilities

    def submit(self, plan: LaunchPlan) -> Ticket:
        """Start a supervisor on every node of the plan; the ticket is `ticket_for` its attempt and nodes.
        Idempotent by `plan.attempt_id`: asking twice starts one job."""

    def observe(self, tickets: Sequence[Ticket]) -> Mapping[Ticket, Sequence[Observed]]:
        """One question for many jobs; of each job its nodes in the order of its plan. An unknown ticket has one
        part, which is LOST. Raises EngineError where nothing can be said: that is no sign of loss."""

    def recover(self, ticket: Ticket, node: int) -> None:
        """Have what a lost supervisor left behind delivered and its processes ended; it reports the end itself."""

    def cancel(self, ticket: Ticket, *, grace: timedelta, end_as: str = "canceled") -> None:
        """Ask every part of a job to stop. `end_as` is what parts that had not ended report: "canceled", "failed"
        since another part failed, or "completed" since nobody needs them any more. A finished or unknown ticket is
        left alone."""


class NodePool(Protocol):
    """The nodes of clusters: who holds them, and how many there are. Called by one thread at a time."""

    def check(self, cluster: Asset, definition: Mapping[str, Any]) -> None:
        """Raises InvalidArgument, with the numbers, for a gang that could never be had."""

    def hold(self, cluster: Asset, run: RunRecord) -> Gang:
        """Take the run's nodes, or begin to get them and say what is waited for. Returns promptly, safe to repeat."""

    def held_by(self, cluster: Asset, run: RunRecord) -> Gang:
        """The nodes it has been given."""

    def release(self, run_id: RunId) -> None:
        """Its nodes are free for others. Quiet when it holds none."""

    def resize(self, clusters: Sequence[Asset], living: set[RunId]) -> None:
        """Free what ended runs hold, let go what has idled too long, have each cluster's minimum there."""

    def gpus_promised(self, cluster: Asset) -> int | None:
        """How many GPUs each node will give a run; None where those of this machine are shared out."""

    def list(self, cluster: Asset) -> Sequence[Node]:
        """Its nodes with their states now."""


@dataclass(frozen=True)
class Site:
    """One place where runs can be run: this machine, or a Ray cluster."""

    name: str
    engine: Engine
    pool: NodePool
    url: str
    """Where its nodes reach the service."""


class Sites(Protocol):
    def home(self) -> Site:
        """This machine."""

    def of(self, cluster: Asset) -> Site:
        """The site that the compute target was created on or attached to. EngineError says what is missing for it."""

    def all(self) -> Sequence[Site]: ...
