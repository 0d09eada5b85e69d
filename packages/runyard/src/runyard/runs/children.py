from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from runyard.core.errors import Conflict
from runyard.core.ports.stores import RunStore
from runyard.core.records.runs import RunId, RunQuery, RunRecord, RunStatus

if TYPE_CHECKING:
    from runyard.runs.scheduling.controller import RunController

_CODE_PROPERTIES = ("ContentSnapshotId", "_azureml.ComputeTargetType")
_REPOSITORY_PREFIXES = ("azureml.git.", "mlflow.source.git.")


def child_record(parent: RunRecord, child_id: RunId, now: datetime, **fields: Any) -> RunRecord:
    """Make a script run with the code, target and definition of its parent; `fields` replace fields of the record.

    The caller stores it and wakes the controller. What was checked when the parent was submitted is not checked again.
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
            if name in _CODE_PROPERTIES or name.startswith(_REPOSITORY_PREFIXES)
        },
    )
    return replace(made, **fields)


def children_of(runs: RunStore, parent: RunRecord, status: Sequence[RunStatus] = ()) -> list[RunRecord]:
    """Direct children, newest first; with `status`, only those in one of these statuses."""
    query = RunQuery(parent.workspace, parent_id=parent.id, include_children=True, status=status, limit=500)
    found: list[RunRecord] = []
    while page := runs.list(query):
        found.extend(page)
        query = replace(query, before=page[-1].sequence)
    return found


def descendants_to_cancel(runs: RunStore, controller: "RunController", ancestor: RunRecord) -> list[RunRecord]:
    """Descendants, each after its parent, without those of a kind that cancels its children itself."""
    if controller.kinds.of(ancestor).has_children:
        return []
    found: list[RunRecord] = []
    for child in children_of(runs, ancestor):
        found += [child, *descendants_to_cancel(runs, controller, child)]
    return found


def cancel_descendants(runs: RunStore, controller: "RunController", ancestor: RunRecord) -> None:
    """Begin to cancel unfinished descendants. Safe to repeat. Interactive ones end with their parent."""
    for descendant in descendants_to_cancel(runs, controller, ancestor):
        if not descendant.is_interactive and not descendant.status.is_terminal:
            controller.cancel(descendant.id)


def close_interactive_children(runs: RunStore, ended: RunRecord) -> None:
    """End the interactive descendants of an ended run, whose script can no longer end them. Safe to repeat.

    Submitted children have processes of their own and go on.
    """
    for child in children_of(runs, ended):
        if child.status.is_terminal or not child.is_interactive:
            continue
        end = RunStatus.COMPLETED if ended.status is RunStatus.COMPLETED else RunStatus.CANCELED
        try:
            closed = runs.move(runs.get(child.id), end, message=f"Ended with its parent {ended.id}.")
        except Conflict:
            continue  # its own script has just ended it
        close_interactive_children(runs, closed)
