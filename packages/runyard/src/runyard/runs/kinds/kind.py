"""What Runyard asks of a kind of run. `docs/run-kinds.md` shows how to write one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from runyard.core.principal import Principal
from runyard.errors import InvalidArgument
from runyard.model.runs import RunRecord, RunStatus
from runyard.ports.blobs import LogStore
from runyard.ports.clock import Clock
from runyard.ports.stores import MetricStore, RunStore, TrialStore
from runyard.runs.direct_inputs import DirectInputs
from runyard.runs.history.journals import Delivered, Journals
from runyard.services.access import Access

if TYPE_CHECKING:
    from runyard.runs.scheduling.controller import Controller
    from runyard.runs.submission import Submission


@dataclass
class KindTools:
    """What the controller and kinds of runs work with: the stores of the service, and the controller itself."""

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
    """How many processes this machine runs at a time."""
    controller: "Controller" = field(init=False)
    """Moves runs on. It sets this when it is made, before the kinds are."""


class RunKind:
    """A kind of run. One object serves all runs of the kind, from all threads.

    It is made while the service starts, with the tools as its only argument; it may use them from then on, but not
    in `__init__`. What it knows of a run must follow from what is stored: a service may be killed at any line.
    """

    name: ClassVar[str]
    """The name of its entry point, and `kind` of its runs on the wire."""
    type: ClassVar[str] = ""
    """Runs submitted with this type are of this kind. Empty for script and interactive, which have any other type."""
    title: ClassVar[str]
    """What people read: "a run is a TITLE"."""
    has_process: ClassVar[bool] = False
    """Whether Runyard starts, watches and stops processes of the run itself."""
    has_children: ClassVar[bool] = False
    """Whether the run is moved on by children that the kind makes, and has no process."""
    needs_script: ClassVar[bool] = True
    """Whether a submission must have a compute target that exists, and a script or a command."""
    log: ClassVar[str] = ""
    """The log that people follow where no process writes one."""
    results: ClassVar[tuple[str, ...]] = ()
    """Properties that the kind sets itself. A rerun begins without them."""

    def __init__(self, tools: KindTools) -> None:
        self.tools = tools

    def check(self, who: Principal, workspace: str, asked: "Submission") -> None:
        """Refuse a submission of this kind that can never work. Raises InvalidArgument, NotFound or Conflict. Runs and
        other things that it names are looked up as the caller sees them: `tools.access` is asked."""
        if self.type and asked.is_interactive:
            raise InvalidArgument(f"A {self.title} cannot be interactive: Runyard starts what belongs to it.")

    def check_any(self, asked: "Submission") -> None:
        """Refuse a submission of any kind that takes what this kind keeps for its own runs, such as their ids."""

    def check_properties(self, properties: Mapping[str, Any]) -> None:
        """Refuse properties that others give a run of this kind."""
        given = [name for name in self.results if name in properties]
        if given:
            raise InvalidArgument(
                f"The property {given[0]!r} of a {self.title} is set by Runyard.", hint="Choose another name."
            )

    def check_child(self, parent: RunRecord) -> None:
        """Raises InvalidArgument where nobody else may submit a child of `parent`."""

    def check_end(self, run: RunRecord, end: RunStatus) -> None:
        """Raises Conflict where the run cannot be given this end from outside."""

    def check_child_deletion(self, parent: RunRecord, child: RunRecord) -> None:
        """Raises Conflict where `child`, which has ended, may not be deleted because of its parent."""

    def advance(self, run: RunRecord) -> RunRecord | None:
        """Take the next step of a run that has not ended. Called by the controller's thread alone.

        Returns the run where it waits for nodes afterwards, else None. A RunyardError fails the run; any other
        exception is logged, and the next pass tries again.
        """
        return None

    def prepared(self, run: RunRecord) -> RunRecord | None:
        """The environment of the run is there. Returns the run where that was its end, None to have it started."""
        return None

    def look(self, own: Sequence[RunRecord], unfinished: Sequence[RunRecord]) -> bool:
        """Called every two seconds by the controller's thread, with the unfinished runs of this kind and of all.

        Returns whether runs were changed. Whatever `child_ended` missed is found here.
        """
        if self.has_children:
            for run in own:
                self.tools.controller.wake(run.id)
        return False

    def child_logged(self, child: RunRecord, delivered: Delivered) -> None:
        """A run that has a parent, of any kind, has logged this. Called in the thread that stored it: return soon."""

    def child_ended(self, child: RunRecord) -> None:
        """A run that has a parent, of any kind, has ended. Called in the thread that ended it: return at once."""

    def lets_children_start(self, parent: RunRecord) -> bool:
        """Whether children of `parent` that wait may still be started."""
        return True

    def cancel(self, run: RunRecord, *, end_as: RunStatus) -> None:
        """Begin to stop a run that has not ended; it shows `end_as` later. Raises Conflict where others moved it."""
        raise NotImplementedError
