import re
from contextlib import suppress

from runyard.access.authorization import Access
from runyard.core.errors import Conflict, Forbidden, InvalidArgument, NotFound
from runyard.core.policy import Action
from runyard.core.ports.stores import RunStore
from runyard.core.principal import Principal
from runyard.core.records.runs import RunId, RunRecord
from runyard.core.records.sweeps import SweepSpec
from runyard.runs.kinds.sweep.spec import checked_sweep

SWEEP_TYPE = "hyperdrive"
"""Type of runs that are sweeps, as in SDK v1."""
SCORE_PROPERTY, BEST_PROPERTY, STATUS_PROPERTY = "score", "best_child_run_id", "best_metric_status"
RESULT_PROPERTIES = (SCORE_PROPERTY, BEST_PROPERTY, STATUS_PROPERTY)
"""Properties that hold the result of a sweep, set when it ends."""
_NUMBER = re.compile(r"0|[1-9][0-9]*")


def spec_of(run: RunRecord) -> SweepSpec:
    """Parsed definition of a stored sweep."""
    return checked_sweep(run.definition.runyard.sweep)


def is_sweep(run: RunRecord) -> bool:
    return run.type == SWEEP_TYPE


class SweepChecks:
    """Checks submissions of sweeps, and of runs that could be confused with a sweep's children.

    Raises InvalidArgument, NotFound and Conflict.
    """

    def __init__(self, runs: RunStore, access: Access) -> None:
        self._runs, self._access = runs, access

    def check_type(self, type_: str, spec: SweepSpec | None) -> None:
        """Refuse a run with the type but not the definition of a sweep, or the reverse."""
        has_spec = spec is not None
        if (type_ == SWEEP_TYPE) != has_spec:
            raise InvalidArgument(
                f"A run of type {SWEEP_TYPE!r} and 'runyard.sweep' in its definition go together: "
                + (f"the type is {type_!r}." if has_spec else "the definition has no 'runyard.sweep'."),
                hint="Submit a HyperDriveConfig.",
            )

    def check_id(self, run_id: RunId) -> None:
        """Refuse an id that a child of an unfinished sweep has or will have."""
        sweep_id, _, number = run_id.rpartition("_")
        if not sweep_id or not _NUMBER.fullmatch(number):
            return
        try:
            sweep = self._runs.get(RunId(sweep_id))
        except NotFound:
            return
        if is_sweep(sweep) and not sweep.status.is_terminal:
            raise Conflict(
                f"The run_id {run_id!r} is that of a child of the sweep {sweep_id!r}, which goes on.",
                hint="Choose another run_id.",
            )

    def check_resumed(self, who: Principal, workspace: str, spec: SweepSpec) -> None:
        """Refuse a sweep that resumes from runs that are missing or that the caller may not read."""
        for run_id in spec.resume_from:
            if not is_sweep(self._found(who, workspace, run_id, "resume_from")):
                raise InvalidArgument(
                    f"resume_from names {run_id!r}, which is no sweep.", hint="Give HyperDriveRun objects."
                )
        for run_id in spec.resume_child_runs:
            child = self._found(who, workspace, run_id, "resume_child_runs")
            parent = self._found(who, workspace, child.parent_id, "resume_child_runs") if child.parent_id else None
            if parent is None or not is_sweep(parent):
                raise InvalidArgument(
                    f"resume_child_runs names {run_id!r}, which is no child of a sweep.",
                    hint="Give children of a HyperDriveRun, as get_children() gives them.",
                )

    def _found(self, who: Principal, workspace: str, run_id: RunId, argument: str) -> RunRecord:
        run = None
        with suppress(NotFound, Forbidden):
            run = self._access.run(who, Action.READ_RUN, run_id)
        if run is None or run.workspace != workspace:
            raise NotFound(f"{argument} names {run_id!r}: there is no such run in workspace {workspace!r}.")
        return run
