from runyard.errors import Conflict, InvalidArgument
from runyard.model.runs import RunRecord, RunStatus
from runyard.runs.kinds.kind import RunKind


class ParentKind(RunKind):
    """A kind whose runs have children and no process: it makes the children, and ends the run once they have ended.

    Until then callers may not add or delete children, nor end the run other than by canceling it. A cancel moves the
    run to CancelRequested; `advance` then cancels the children and ends it.
    """

    has_children = True

    def check_child(self, parent: RunRecord) -> None:
        raise InvalidArgument(
            f"The parent run {parent.id!r} is a {self.title}, which makes its children by itself.",
            hint="Submit the run by itself, or as a child of another one.",
        )

    def check_end(self, run: RunRecord, end: RunStatus) -> None:
        if end is not RunStatus.CANCELED:
            raise Conflict(
                f"Run {run.id} is a {self.title}: it ends when its children have, and cannot be set to {end}.",
                hint="Cancel it to end it now.",
            )

    def check_child_deletion(self, parent: RunRecord, child: RunRecord) -> None:
        if not parent.status.is_terminal:
            raise Conflict(
                f"Run {child.id!r} is a child of the {self.title} {parent.id!r}, which is still going on.",
                hint=f"Wait for the end of the {self.title}, or cancel it, first.",
            )

    def child_ended(self, child: RunRecord) -> None:
        if child.parent_id is not None:
            self.tools.controller.wake(child.parent_id)

    def cancel(self, run: RunRecord, *, end_as: RunStatus) -> None:
        """Request the cancel. The controller's thread cancels the children, which may be thousands."""
        if run.status is not RunStatus.CANCEL_REQUESTED:
            self.tools.runs.move(run, RunStatus.CANCEL_REQUESTED, message="Its children are canceled.")
        self.tools.controller.wake(run.id)
