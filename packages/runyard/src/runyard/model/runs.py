from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, NewType

from runyard.core.definitions.run import EMPTY, RunDefinition

RunId = NewType("RunId", str)
AttemptId = NewType("AttemptId", str)

INTERACTIVE_TARGET = "sdk"


def attempt_id(run_id: RunId, number: int) -> AttemptId:
    return AttemptId(f"{run_id}.{number}")


def run_of(attempt_id: AttemptId) -> RunId:
    return RunId(attempt_id.rpartition(".")[0])


class RunStatus(StrEnum):
    NOT_STARTED = "NotStarted"
    PREPARING = "Preparing"
    QUEUED = "Queued"
    STARTING = "Starting"
    RUNNING = "Running"
    FINALIZING = "Finalizing"
    CANCEL_REQUESTED = "CancelRequested"
    COMPLETED = "Completed"
    FAILED = "Failed"
    CANCELED = "Canceled"

    @property
    def is_terminal(self) -> bool:
        return not NEXT[self]


_END = frozenset({RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELED})
_S = RunStatus
# FAILED and CANCELED can be reached from anywhere that is not terminal. COMPLETED too, but for a
# run nobody has started: an interactive run, or a report that overtook the one before it.
# A run goes back to QUEUED to be started once more, and stays QUEUED when it is handed over to an engine that has a
# queue. One that only builds its environment ends from PREPARING.
NEXT: Mapping[RunStatus, frozenset[RunStatus]] = {
    _S.NOT_STARTED: frozenset({_S.PREPARING, _S.QUEUED, _S.STARTING, _S.RUNNING, _S.CANCEL_REQUESTED}) | _END,
    _S.PREPARING: frozenset({_S.QUEUED, _S.STARTING, _S.CANCEL_REQUESTED}) | _END,
    _S.QUEUED: frozenset({_S.QUEUED, _S.STARTING, _S.CANCEL_REQUESTED, _S.FAILED, _S.CANCELED}),
    _S.STARTING: frozenset({_S.QUEUED, _S.RUNNING, _S.FINALIZING, _S.CANCEL_REQUESTED}) | _END,
    _S.RUNNING: frozenset({_S.QUEUED, _S.FINALIZING, _S.CANCEL_REQUESTED}) | _END,
    _S.FINALIZING: frozenset({_S.QUEUED, _S.CANCEL_REQUESTED}) | _END,
    _S.CANCEL_REQUESTED: _END,
    _S.COMPLETED: frozenset(),
    _S.FAILED: frozenset(),
    _S.CANCELED: frozenset(),
}


@dataclass(frozen=True)
class RunRecord:
    """A snapshot of one run. `definition` is the SDK v1 run definition, as its users read it."""

    id: RunId
    workspace: str
    experiment: str
    number: int
    status: RunStatus
    created_at: datetime
    version: int = 1
    type: str = "azureml.scriptrun"
    target: str = "local"
    display_name: str = ""
    description: str = ""
    parent_id: RunId | None = None
    root_id: RunId | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    snapshot_id: str | None = None
    definition: RunDefinition = EMPTY
    tags: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    error: Mapping[str, Any] | None = None
    warnings: tuple[str, ...] = ()
    message: str = ""
    attempt: int = 0
    ticket: str = ""
    nodes: tuple[str, ...] = ()
    dropped_points: int = 0
    environment_lock: str = ""
    exit_facts: Mapping[str, Any] | None = None
    launched_from: str | None = None
    """The service that started the present attempt, as HOST:HOME: on its machine it alone can look after it."""
    created_by: str = ""
    """`Principal.name` of who submitted it; empty for runs from before it was recorded."""
    job_id: str | None = None
    """The id that the engine gave to the job of the present attempt; None where it has none or none is known yet."""
    sequence: int = 0
    """Grows with each run stored; a listing goes on below it."""

    @property
    def is_interactive(self) -> bool:
        """Its process is not ours: nothing is launched, watched or stopped."""
        return self.target == INTERACTIVE_TARGET

    @property
    def is_handed_over(self) -> bool:
        """It waits in the queue of an engine that has one, which decides when it starts."""
        return self.status is RunStatus.QUEUED and bool(self.nodes)


@dataclass(frozen=True)
class RunEvent:
    """One line of a run's history: a status reached, a note, a fault survived."""

    at: datetime
    kind: str
    text: str


@dataclass(frozen=True)
class QueuedRun:
    """As much of a run that waits for its target as the others of the queue must know."""

    id: RunId
    message: str
    parent_id: RunId | None


@dataclass(frozen=True)
class RunQuery:
    """What to list, newest first unless `order_by_metric` is given. None means any."""

    workspace: str
    experiment: str | None = None
    parent_id: RunId | None = None
    include_children: bool = False
    type: str | None = None
    status: Sequence[RunStatus] = ()
    tags: Mapping[str, str | None] = field(default_factory=dict)
    properties: Mapping[str, str | None] = field(default_factory=dict)
    created_by: str | None = None
    order_by_metric: str | None = None
    descending: bool = True
    metric_above: float | None = None
    before: int | None = None
    limit: int = 100
