from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from runyard.errors import Conflict
from runyard.model.runs import RunId, RunQuery, RunRecord, RunStatus
from runyard.ports.stores import RunStore

if TYPE_CHECKING:
    from runyard.runs.scheduling.controller import Controller

_OF_THE_CODE = ("ContentSnapshotId", "_azureml.ComputeTargetType")
_OF_ITS_REPOSITORY = ("azureml.git.", "mlflow.source.git.")


def child_record(parent: RunRecord, child_id: RunId, now: datetime, **fields: Any) -> RunRecord:
    """A new script run with its parent's code, target and definition; `fields` replace those of the record.

    Whoever stores it wakes the controller for it. What was checked at the parent's submit is not checked again.
    """
    made = RunRecord(
        id=child_id,
        workspace=parent.workspace,
        experiment=parent.experiment,
        number=0,
        status=RunStatus.NOT_STARTED,
        created_at=now,
        target=parent.target,
        parent_id=parent.id,
        root_id=parent.root_id or parent.id,
        snapshot_id=parent.snapshot_id,
        created_by=parent.created_by,
        definition=parent.definition,
        properties={
            name: value
            for name, value in parent.properties.items()
            if name in _OF_THE_CODE or name.startswith(_OF_ITS_REPOSITORY)
        },
    )
    return replace(made, **fields)


def children_of(runs: RunStore, parent: RunRecord, status: Sequence[RunStatus] = ()) -> list[RunRecord]:
    """The direct children, newest first: all, or those with one of these statuses."""
    query = RunQuery(parent.workspace, parent_id=parent.id, include_children=True, status=status, limit=500)
    found: list[RunRecord] = []
    while page := runs.list(query):
        found.extend(page)
        query = replace(query, before=page[-1].sequence)
    return found


def canceled_with(runs: RunStore, controller: "Controller", ancestor: RunRecord) -> list[RunRecord]:
    """Children, their children and so on, each after its parent; but not those of a kind that cancels its own."""
    if controller.kinds.of(ancestor).has_children:
        return []
    found: list[RunRecord] = []
    for child in children_of(runs, ancestor):
        found += [child, *canceled_with(runs, controller, child)]
    return found


def cancel_below(runs: RunStore, controller: "Controller", ancestor: RunRecord) -> None:
    """Begin to stop what goes on of `canceled_with`. Safe to repeat. Interactive ones end with their parent."""
    for below in canceled_with(runs, controller, ancestor):
        if not below.is_interactive and not below.status.is_terminal:
            controller.cancel(below.id)


def is_descendant(runs: RunStore, run: RunRecord, ancestor_id: RunId) -> bool:
    """Whether `run` is that run or came from it, however far down."""
    while run.id != ancestor_id:
        if run.parent_id is None:
            return False
        run = runs.get(run.parent_id)
    return True


def close_open_children(runs: RunStore, ended: RunRecord) -> None:
    """Give interactive descendants that a dead script left open the end of their parent.

    Safe to repeat. Children that were submitted have a process of their own and go on.
    """
    for child in children_of(runs, ended):
        if child.status.is_terminal or not child.is_interactive:
            continue
        end = RunStatus.COMPLETED if ended.status is RunStatus.COMPLETED else RunStatus.CANCELED
        try:
            closed = runs.move(runs.get(child.id), end, message=f"Ended with its parent {ended.id}.")
        except Conflict:
            continue  # it was ended by its own script meanwhile
        close_open_children(runs, closed)
