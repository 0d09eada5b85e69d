from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, NewType

from runyard.core.definitions.run import EMPTY_DEFINITION, RunDefinition

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
# FAILED and CANCELED can be reached from every status that is not terminal. COMPLETED too, except from QUEUED: an
# interactive run may complete without being started, and a report may overtake the one before. A run goes back to
# QUEUED to be started again, and stays QUEUED when it is handed over to an engine with a queue of its own. A run that
# only builds its environment ends from PREPARING.
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
    """The state of one run at one moment. `definition` is the SDK v1 run definition."""

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
    definition: RunDefinition = EMPTY_DEFINITION
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
    """The service that started the current attempt, as HOST:HOME. Only that service can manage its local processes."""
    created_by: str = ""
    """`Principal.name` of the caller who submitted it; empty for runs older than this field."""
    job_id: str | None = None
    """The engine's id for the job of the current attempt; None if there is none or it is not known yet."""
    sequence: int = 0
    """Grows with each stored run; the next page of a listing starts below it."""

    @property
    def is_interactive(self) -> bool:
        """True if the user's own process is the run: the platform launches, watches and stops nothing."""
        return self.target == INTERACTIVE_TARGET

    @property
    def is_handed_over(self) -> bool:
        """True if it waits in the engine's own queue, so the engine decides when it starts."""
        return self.status is RunStatus.QUEUED and bool(self.nodes)


@dataclass(frozen=True)
class RunEvent:
    """One line of a run's history: a new status, a note, or an error that did not end the run."""

    at: datetime
    kind: str
    text: str


@dataclass(frozen=True)
class QueuedRun:
    """The fields of a queued run that scheduling needs."""

    id: RunId
    message: str
    parent_id: RunId | None


@dataclass(frozen=True)
class RunQuery:
    """Filter of a listing, newest first unless `order_by_metric` is given. None matches all."""

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
