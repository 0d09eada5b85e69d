from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from runyard.core.records.runs import RunId, RunRecord, RunStatus
from runyard.core.records.sweeps import Trial
from runyard.runs.kinds.sweep.log import cause_text
from runyard.runs.scheduling.build_coalescer import build_failure, permanent_build_failure

_MOST_FAILED_BUILDS = 3


@dataclass
class SweepProgress:
    """Which children of a sweep are created, running and ended. A cache of what is stored.

    Used by the controller's thread only, except `ended`, to which any thread may append.
    """

    pending: deque[Trial] = field(default_factory=deque)
    """Stored trials without a run."""
    open: set[RunId] = field(default_factory=set)
    """Children that have not ended."""
    ended: deque[RunRecord] = field(default_factory=deque)
    """Ended children that the sweep has not handled yet."""
    is_exhausted: bool = False
    """No more trials will be sampled."""
    barred: str = ""
    """Why no further child can be created, now or later; empty if nothing prevents it."""
    is_canceling: bool = False
    """The log has the line that the children are canceled."""
    _failed_builds: int = 0
    """Children in a row, up to the last ended one, whose environment build failed."""

    def fill(self, there: Sequence[RunRecord], trials: Sequence[Trial]) -> None:
        """Set the state from the stored runs and trials."""
        made = {child.id for child in there}
        self.open |= {child.id for child in there if not child.status.is_terminal}
        self.pending.extend(trial for trial in trials if trial.child_id not in made)

    def newly_ended(self) -> Iterator[RunRecord]:
        """Yield the children that have ended since the last call."""
        with suppress(IndexError):
            while True:
                child = self.ended.popleft()
                self.open.discard(child.id)
                yield child

    def note_created(self, trial: Trial) -> None:
        """Note that the first of `pending` has its run."""
        self.pending.popleft()
        self.open.add(trial.child_id)

    def build_obstacle(self, ended: Iterable[RunRecord]) -> str:
        """Why the environment cannot be built for any child, given those that have just ended; empty if it can.

        All children share one environment, so a permanent failure of one build holds for all. A transient cause counts
        as permanent after _MOST_FAILED_BUILDS failures in a row.
        """
        why = ""
        for child in ended:
            error = build_failure(child)
            if error is not None:
                self._failed_builds += 1
            elif child.status is not RunStatus.CANCELED:
                self._failed_builds = 0
            is_permanent = self._failed_builds >= _MOST_FAILED_BUILDS or permanent_build_failure(child) is not None
            if error is not None and is_permanent and not why:
                cause = cause_text(error.get("message"))
                why = f"The cause, which holds for all children (as of {child.id}): {cause}"
        return why

    @property
    def has_more(self) -> bool:
        """Whether more children will be created."""
        return not self.barred and (bool(self.pending) or not self.is_exhausted)
