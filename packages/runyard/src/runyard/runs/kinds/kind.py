"""Interface of a kind of run. `docs/run-kinds.md` shows how to write one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from runyard.access.authorization import Access
from runyard.core.errors import Conflict, InvalidArgument
from runyard.core.ports.blobs import LogStore
from runyard.core.ports.clock import Clock
from runyard.core.ports.stores import MetricStore, RunStore, TrialStore
from runyard.core.principal import Principal
from runyard.core.records.runs import RunRecord, RunStatus
from runyard.runs.direct_inputs import DirectInputs
from runyard.runs.history.journals import Delivered, Journals

if TYPE_CHECKING:
    from runyard.runs.scheduling.controller import RunController
    from runyard.runs.submit import Submission


@dataclass
class KindTools:
    """Stores, clock and controller, for the controller and the kinds of runs."""

    runs: RunStore
    logs: LogStore
    metrics: MetricStore
    trials: TrialStore
    journals: Journals
    inputs: DirectInputs
    clock: Clock
    access: Access
    home: Path
    cpus: int = 1
    """CPUs of this machine."""
    controller: "RunController" = field(init=False)
    """Set by the controller itself, before the kinds are made."""


class RunKind:
    """A kind of run. One object serves all runs of the kind, from all threads.

    It is made while the service starts, with the tools as its only argument; `__init__` must not use them yet. What it
    knows of a run must follow from what is stored: the service may be killed at any line.
    """

    name: ClassVar[str]
    """The name of its entry point, and `kind` of its runs on the wire."""
    type: ClassVar[str] = ""
    """Runs submitted with this type are of this kind. Empty for script and interactive, which have any other type."""
    title: ClassVar[str]
    """Name shown to users: "a run is a TITLE"."""
    has_process: ClassVar[bool] = False
    """Whether Runyard starts, watches and stops processes of the run itself."""
    has_children: ClassVar[bool] = False
    """Whether the run has no process, and the kind makes children that advance it."""
    needs_script: ClassVar[bool] = True
    """Whether a submission must have a compute target that exists, and a script or a command."""
    log: ClassVar[str] = ""
    """Log to follow if no process writes one."""
    results: ClassVar[tuple[str, ...]] = ()
    """Properties that the kind sets itself. A rerun begins without them."""

    def __init__(self, tools: KindTools) -> None:
        self.tools = tools

    def check(self, who: Principal, workspace: str, submission: "Submission") -> None:
        """Refuse a submission of this kind that can never work. Raises InvalidArgument, NotFound or Conflict.

        Look up runs and assets that it names through `tools.access`, as the caller.
        """
        if self.type and submission.is_interactive:
            raise InvalidArgument(f"A {self.title} cannot be interactive: Runyard starts what belongs to it.")

    def check_any(self, submission: "Submission") -> None:
        """Refuse a submission of any kind that uses what this kind reserves, such as ids of its runs."""

    def check_properties(self, properties: Mapping[str, Any]) -> None:
        """Raise InvalidArgument if a caller sets a property that the kind sets itself."""
        given = [name for name in self.results if name in properties]
        if given:
            raise InvalidArgument(
                f"The property {given[0]!r} of a {self.title} is set by Runyard.", hint="Choose another name."
            )

    def check_child(self, parent: RunRecord) -> None:
        """Raise InvalidArgument if callers may not submit a child of `parent`."""

    def check_end(self, run: RunRecord, end: RunStatus) -> None:
        """Raise Conflict if a caller may not end the run with this status."""

    def check_child_deletion(self, parent: RunRecord, child: RunRecord) -> None:
        """Raise Conflict if `child`, which has ended, may not be deleted because of its parent."""

    def advance(self, run: RunRecord) -> RunRecord | None:
        """Take the next step of a run that has not ended. Called by the controller's thread only.

        Returns the run if it waits for nodes now, else None. A RunyardError fails the run; any other exception is
        logged and retried on the next pass.
        """
        return None

    def prepared(self, run: RunRecord) -> RunRecord | None:
        """Called when the environment of the run is built. Return the run if it has ended, None to start it."""
        return None

    def reconcile(self, own: Sequence[RunRecord], unfinished: Sequence[RunRecord]) -> bool:
        """Called every two seconds by the controller's thread, with the unfinished runs of this kind and of all kinds.

        Returns whether runs were changed. Find here what `child_ended` missed.
        """
        if self.has_children:
            for run in own:
                self.tools.controller.wake(run.id)
        return False

    def child_logged(self, child: RunRecord, delivered: Delivered) -> None:
        """Called when a child of a run of any kind has logged, in the thread that stored it: return soon."""

    def child_ended(self, child: RunRecord) -> None:
        """Called when a child of a run of any kind has ended, in the thread that ended it: return at once."""

    def lets_children_start(self, parent: RunRecord) -> bool:
        """Whether waiting children of `parent` may be started."""
        return True

    def cancel(self, run: RunRecord, *, end_as: RunStatus) -> None:
        """Begin to stop a run that has not ended; it shows `end_as` later. Raises Conflict if it has moved."""
        raise NotImplementedError


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
