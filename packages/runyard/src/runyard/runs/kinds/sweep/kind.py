from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from runyard.core.errors import InvalidArgument
from runyard.core.principal import Principal
from runyard.core.records.runs import RunId, RunRecord
from runyard.runs.history.journals import Delivered
from runyard.runs.kinds.kind import KindTools, ParentKind
from runyard.runs.kinds.sweep.checks import RESULT_PROPERTIES, SWEEP_TYPE, SweepChecks
from runyard.runs.kinds.sweep.controller import SweepController
from runyard.runs.kinds.sweep.live_sweep import LiveSweeps
from runyard.runs.kinds.sweep.log import SWEEP_LOG

if TYPE_CHECKING:
    from runyard.runs.submit import Submission


class SweepKind(ParentKind):
    """A hyperparameter sweep: tries many values of the script's arguments, each in a child run."""

    name = "sweep"
    type = SWEEP_TYPE
    title = "sweep"
    log = SWEEP_LOG
    results = RESULT_PROPERTIES

    def __init__(self, tools: KindTools) -> None:
        super().__init__(tools)
        self._checks = SweepChecks(tools.runs, tools.access)
        self.live = LiveSweeps(tools)
        self._controller = SweepController(tools, self.live)

    def check(self, who: Principal, workspace: str, submission: "Submission") -> None:
        super().check(who, workspace, submission)
        if submission.sweep is not None:
            self._checks.check_resumed(who, workspace, submission.sweep)

    def check_any(self, submission: "Submission") -> None:
        self._checks.check_id(RunId(submission.run_id))
        self._checks.check_type(submission.type, submission.sweep)

    def check_properties(self, properties: Mapping[str, Any]) -> None:
        given = [name for name in RESULT_PROPERTIES if name in properties]
        if given:
            raise InvalidArgument(
                f"The property {given[0]!r} of a sweep is set at its end, from what its children have logged.",
                hint="Choose another name.",
            )

    def advance(self, run: RunRecord) -> RunRecord | None:
        self._controller.advance(run.id)
        return None

    def reconcile(self, own: Sequence[RunRecord], unfinished: Sequence[RunRecord]) -> bool:
        return self._controller.reconcile(own, {run.id for run in unfinished})

    def child_logged(self, child: RunRecord, delivered: Delivered) -> None:
        self.live.logged(child, delivered)

    def child_ended(self, child: RunRecord) -> None:
        self._controller.child_ended(child)

    def lets_children_start(self, parent: RunRecord) -> bool:
        return self._controller.lets_children_start(parent)
