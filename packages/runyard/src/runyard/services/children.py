from collections.abc import Callable, Sequence
from dataclasses import replace

from runyard.errors import Conflict
from runyard.model.runs import RunId, RunQuery, RunRecord, RunStatus
from runyard.model.sweeps import SWEEP_TYPE
from runyard.ports.stores import RunStore


def children_of(runs: RunStore, parent: RunRecord, status: Sequence[RunStatus] = ()) -> list[RunRecord]:
    """The direct children, newest first: all, or those with one of these statuses."""
    query = RunQuery(parent.workspace, parent_id=parent.id, include_children=True, status=status, limit=500)
    found: list[RunRecord] = []
    while page := runs.list(query):
        found.extend(page)
        query = replace(query, before=page[-1].sequence)
    return found


def canceled_with(runs: RunStore, ancestor: RunRecord) -> list[RunRecord]:
    """Children, their children and so on, each after its parent; but not those of a sweep, who cancels them itself."""
    if ancestor.type == SWEEP_TYPE:
        return []
    found: list[RunRecord] = []
    for child in children_of(runs, ancestor):
        found += [child, *canceled_with(runs, child)]
    return found


def cancel_below(runs: RunStore, ancestor: RunRecord, cancel: Callable[[RunId], None]) -> None:
    """Begin to stop what goes on of `canceled_with`. Safe to repeat. Interactive ones end with their parent."""
    for below in canceled_with(runs, ancestor):
        if not below.is_interactive and not below.status.is_terminal:
            cancel(below.id)


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
