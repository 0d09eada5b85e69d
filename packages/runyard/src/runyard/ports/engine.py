from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Protocol

from runyard.core.definitions.run import RunDefinition
from runyard.model.assets import Asset
from runyard.model.nodes import Gang, Node
from runyard.model.plan import LaunchPlan, part_name
from runyard.model.runs import AttemptId, RunId, RunRecord


@dataclass(frozen=True)
class Ticket:
    """A job: one attempt on so many nodes. Known before it is submitted, and again after a restart."""

    attempt_id: AttemptId
    node_count: int = 1
    job_id: str = field(default="", compare=False)
    """The engine's own id, which `submit` returned. Empty for an engine that has none, and where the service ended
    before it had stored it: such a job is found by its attempt."""

    def __str__(self) -> str:
        return f"{self.attempt_id}*{self.node_count}" if self.node_count > 1 else self.attempt_id

    def parts(self) -> list[str]:
        """The name of each node's share, in the order of the plan."""
        return [part_name(self.attempt_id, node) for node in range(self.node_count)]


def ticket_for(attempt_id: str, node_count: int, job_id: str | None = None) -> Ticket:
    return Ticket(AttemptId(attempt_id), max(1, node_count), job_id or "")


def ticket_of(run: RunRecord) -> Ticket:
    """Of its present attempt."""
    return ticket_for(run.ticket, len(run.nodes), run.job_id)


class PartPhase(StrEnum):
    ALIVE = "alive"
    """A supervisor looks after it, or is about to."""
    QUEUED = "queued"
    """It waits in the engine's own queue. `Observed.why` says what for, where that is known."""
    LOST = "lost"
    """Its supervisor is gone, its node is there: `recover` helps."""
    GONE = "gone"
    """Its node is gone, and what lay there; or its job left the engine's queue and never began. `Observed.why` says
    what is known."""


@dataclass(frozen=True)
class Observed:
    """One node's share of an attempt, as the engine sees it."""

    phase: PartPhase
    why: str = ""


@dataclass(frozen=True)
class Capabilities:
    max_nodes: int
    gpus: tuple[str, ...] = ()


class Engine(Protocol):
    """Every method returns promptly; none waits for a job. EngineError where the engine cannot be reached."""

    capabilities: Capabilities

    def submit(self, plan: LaunchPlan) -> Ticket:
        """Start a supervisor on every node of the plan, or put the job into the engine's own queue. The ticket is
        `ticket_for` its attempt and nodes, with the engine's job id where it has one.
        Idempotent by `plan.attempt_id`: asking twice starts one job, and both get its id."""

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

    def check(self, cluster: Asset, definition: RunDefinition) -> None:
        """Raises InvalidArgument, with the numbers, for a gang that the cluster could never place.

        `node_count` is at most the target's `max_nodes` and the engine's: that is checked before.
        """

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


class Disk(StrEnum):
    """Which files the nodes of a site see."""

    SERVICE = "service"
    """The service's own disk, on the service's machine: files are handed over by path."""
    SHARED = "shared"
    """A file system that all nodes share, on other machines than the service's."""
    OWN = "own"
    """Each node its own; everything goes over HTTP."""


@dataclass(frozen=True)
class Site:
    """One place where runs can be run: this machine, or a cluster."""

    name: str
    engine: Engine
    pool: NodePool
    url: str
    """Where its nodes reach the service."""
    disk: Disk = Disk.OWN
    queues_itself: bool = False
    """Its engine has a queue: runs are handed over at once, without nodes held for them first."""
    warm: Callable[[], None] = lambda: None
    """Have ready what the first run would wait for."""
    close: Callable[[], None] = lambda: None
    """The service ends; runs go on."""

    @property
    def shares_files(self) -> bool:
        """Whether files are handed over by path."""
        return self.disk is Disk.SERVICE


class Sites(Protocol):
    def home(self) -> Site:
        """This machine."""

    def of(self, cluster: Asset) -> Site:
        """The site that the compute target was created on or attached to. EngineError says what is missing for it."""

    def all(self) -> Sequence[Site]: ...
