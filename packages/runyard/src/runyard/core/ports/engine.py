from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Protocol

from runyard.core.definitions.run import RunDefinition
from runyard.core.records.assets import Asset
from runyard.core.records.launch_plan import LaunchPlan, node_task_name
from runyard.core.records.nodes import Node, NodeAllocation
from runyard.core.records.runs import AttemptId, RunId, RunRecord


@dataclass(frozen=True)
class Ticket:
    """A job: one attempt on `node_count` nodes. It is known before the submit, and again after a restart."""

    attempt_id: AttemptId
    node_count: int = 1
    job_id: str = field(default="", compare=False)
    """The engine's own id, as `submit` returned it. Empty for an engine without ids, and if the service ended before it
    stored the id: such a job is found by its attempt."""

    def __str__(self) -> str:
        return f"{self.attempt_id}*{self.node_count}" if self.node_count > 1 else self.attempt_id

    def parts(self) -> list[str]:
        """Name of each node's task, in the order of the plan."""
        return [node_task_name(self.attempt_id, node) for node in range(self.node_count)]


def ticket_for(attempt_id: str, node_count: int, job_id: str | None = None) -> Ticket:
    return Ticket(AttemptId(attempt_id), max(1, node_count), job_id or "")


def ticket_of(run: RunRecord) -> Ticket:
    """Ticket of the run's current attempt."""
    return ticket_for(run.ticket, len(run.nodes), run.job_id)


class NodeTaskPhase(StrEnum):
    ALIVE = "alive"
    """A supervisor runs it, or is about to."""
    QUEUED = "queued"
    """It waits in the engine's own queue. `ObservedTask.why` gives the reason if it is known."""
    LOST = "lost"
    """Its supervisor is gone but its node is there: call `recover`."""
    GONE = "gone"
    """Its node and the files there are gone, or its job left the engine's queue without starting. `ObservedTask.why`
    says what is known."""


@dataclass(frozen=True)
class ObservedTask:
    """A node task as the engine sees it."""

    phase: NodeTaskPhase
    why: str = ""


@dataclass(frozen=True)
class Capabilities:
    max_nodes: int
    gpus: tuple[str, ...] = ()


class Engine(Protocol):
    """Starts and stops jobs. Every method returns promptly; none waits for a job. Raises EngineError if the engine
    cannot be reached."""

    capabilities: Capabilities

    def submit(self, plan: LaunchPlan) -> Ticket:
        """Start a supervisor on every node of the plan, or put the job into the engine's own queue.

        Idempotent by `plan.attempt_id`: two calls start one job and return the same id. The ticket is `ticket_for` the
        attempt and its nodes, with the engine's job id if it has one.
        """

    def observe(self, tickets: Sequence[Ticket]) -> Mapping[Ticket, Sequence[ObservedTask]]:
        """State of many jobs in one query; each job's tasks in the order of its plan. An unknown ticket has one task,
        which is LOST. Raises EngineError if the state is unknown: that does not mean that a job is lost."""

    def recover(self, ticket: Ticket, node: int) -> None:
        """Upload what a lost supervisor left behind and end its processes. The recovery reports the end itself."""

    def cancel(self, ticket: Ticket, *, grace: timedelta, end_as: str = "canceled") -> None:
        """Ask every task of a job to stop. `end_as` is the outcome that unfinished tasks report: "canceled", "failed"
        because another task failed, or "completed" because nobody needs them any more. Does nothing for a finished or
        unknown ticket."""


class NodePool(Protocol):
    """The nodes of clusters and the runs that hold them. Called by one thread at a time."""

    def check(self, cluster: Asset, definition: RunDefinition) -> None:
        """Raises InvalidArgument, with the numbers, for an allocation that the cluster can never satisfy.

        The caller has checked `node_count` against `max_nodes` of the target and of the engine.
        """

    def hold(self, cluster: Asset, run: RunRecord) -> NodeAllocation:
        """Allocate the run's nodes, or start to acquire them and report what is missing. Returns promptly; safe to
        repeat."""

    def held_by(self, cluster: Asset, run: RunRecord) -> NodeAllocation:
        """The nodes that the run holds."""

    def release(self, run_id: RunId) -> None:
        """Free the run's nodes for others. Does nothing if it holds none."""

    def resize(self, clusters: Sequence[Asset], living: set[RunId]) -> None:
        """Free nodes of ended runs, remove nodes that were idle too long, and keep each cluster's minimum."""

    def gpus_promised(self, cluster: Asset) -> int | None:
        """GPUs that each node gives a run; None if the GPUs of this machine are divided among runs."""

    def list(self, cluster: Asset) -> Sequence[Node]:
        """Nodes of the cluster with their current states."""


class Disk(StrEnum):
    """Which file system the nodes of a site see."""

    SERVICE = "service"
    """The service's own disk, on the service's machine: files are passed by path."""
    SHARED = "shared"
    """A file system that all nodes share, but not the service."""
    OWN = "own"
    """Each node has its own disk; all files go over HTTP."""


@dataclass(frozen=True)
class Site:
    """One place where runs execute: this machine, or a cluster."""

    name: str
    engine: Engine
    pool: NodePool
    url: str
    """Address of the service for its nodes."""
    disk: Disk = Disk.OWN
    queues_itself: bool = False
    """True if its engine has a queue: runs are handed over at once, before any nodes are allocated."""
    warm: Callable[[], None] = lambda: None
    """Prepare what the first run would wait for."""
    close: Callable[[], None] = lambda: None
    """Called when the service ends; runs continue."""

    @property
    def shares_files(self) -> bool:
        """True if files are passed by path."""
        return self.disk is Disk.SERVICE


class Sites(Protocol):
    def home(self) -> Site:
        """This machine."""

    def of(self, cluster: Asset) -> Site:
        """Site of a compute target. Raises EngineError that says what is missing for it."""

    def all(self) -> Sequence[Site]: ...
