"""What is checked of a sweep, and of runs near one, before they are stored."""

import re
from collections.abc import Mapping
from typing import Any

from runyard.errors import Conflict, InvalidArgument, NotFound
from runyard.model.runs import RunId, RunRecord
from runyard.model.sweeps import SWEEP_TYPE, SweepSpec
from runyard.ports.stores import RunStore
from runyard.tuning.spec import checked_sweep

SCORE_PROPERTY, BEST_PROPERTY, STATUS_PROPERTY = "score", "best_child_run_id", "best_metric_status"
RESULT_PROPERTIES = (SCORE_PROPERTY, BEST_PROPERTY, STATUS_PROPERTY)
"""What a sweep has found out, once it has ended."""
_NUMBER = re.compile(r"0|[1-9][0-9]*")


def sweep_in(definition: Mapping[str, Any]) -> Any:
    """What the definition asks of a sweep, as it was submitted; None where it asks for none."""
    ours = definition.get("runyard")
    return ours.get("sweep") if isinstance(ours, Mapping) else None


def spec_of(run: RunRecord) -> SweepSpec:
    """What a stored sweep asks for."""
    return checked_sweep(sweep_in(run.definition))


def check_no_results(type_: str, properties: Mapping[str, Any]) -> None:
    """Raises InvalidArgument where somebody else gives what a sweep is to find out. Properties are set once."""
    given = [name for name in RESULT_PROPERTIES if name in properties]
    if type_ == SWEEP_TYPE and given:
        raise InvalidArgument(
            f"The property {given[0]!r} of a sweep is set at its end, from what its children have logged.",
            hint="Choose another name.",
        )


class AskedSweeps:
    def __init__(self, runs: RunStore) -> None:
        self._runs = runs

    def check(self, workspace: str, type_: str, definition: Mapping[str, Any], *, interactive: bool) -> None:
        """Raises InvalidArgument for a sweep that could never go on, NotFound for what it would resume from."""
        raw = sweep_in(definition)
        if (type_ == SWEEP_TYPE) != (raw is not None):
            raise InvalidArgument(
                f"A run of type {SWEEP_TYPE!r} and 'runyard.sweep' in its definition go together: "
                + (f"the type is {type_!r}." if raw is not None else "the definition has no 'runyard.sweep'."),
                hint="Submit a HyperDriveConfig.",
            )
        if raw is None:
            return
        if interactive:
            raise InvalidArgument("A sweep cannot be interactive: its children are started by Runyard.")
        self._check_resumed(workspace, checked_sweep(raw))

    def check_id(self, run_id: RunId) -> None:
        """Raises Conflict for an id that a child of a sweep which goes on has, or will have."""
        sweep_id, _, number = run_id.rpartition("_")
        if not sweep_id or not _NUMBER.fullmatch(number):
            return
        try:
            sweep = self._runs.get(RunId(sweep_id))
        except NotFound:
            return
        if sweep.type == SWEEP_TYPE and not sweep.status.is_terminal:
            raise Conflict(
                f"The run_id {run_id!r} is that of a child of the sweep {sweep_id!r}, which goes on.",
                hint="Choose another run_id.",
            )

    def check_parent(self, parent: RunRecord) -> None:
        """A sweep makes all of its children itself."""
        if parent.type == SWEEP_TYPE:
            raise InvalidArgument(
                f"The parent run {parent.id!r} is a sweep, which makes its children by itself.",
                hint="Submit the run by itself, or as a child of another one.",
            )

    def _check_resumed(self, workspace: str, spec: SweepSpec) -> None:
        for run_id in spec.resume_from:
            if self._found(workspace, run_id, "resume_from").type != SWEEP_TYPE:
                raise InvalidArgument(
                    f"resume_from names {run_id!r}, which is no sweep.", hint="Give HyperDriveRun objects."
                )
        for run_id in spec.resume_child_runs:
            child = self._found(workspace, run_id, "resume_child_runs")
            parent = self._found(workspace, child.parent_id, "resume_child_runs") if child.parent_id else None
            if parent is None or parent.type != SWEEP_TYPE:
                raise InvalidArgument(
                    f"resume_child_runs names {run_id!r}, which is no child of a sweep.",
                    hint="Give children of a HyperDriveRun, as get_children() gives them.",
                )

    def _found(self, workspace: str, run_id: RunId, argument: str) -> RunRecord:
        try:
            run = self._runs.get(run_id)
        except NotFound:
            run = None
        if run is None or run.workspace != workspace:
            raise NotFound(f"{argument} names {run_id!r}: there is no such run in workspace {workspace!r}.")
        return run
