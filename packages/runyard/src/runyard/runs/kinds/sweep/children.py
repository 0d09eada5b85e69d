from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from runyard.model.runs import RunId, RunRecord, RunStatus
from runyard.model.sweeps import Trial
from runyard.runs.kinds.sweep.log import cause_text
from runyard.runs.scheduling.failed_builds import build_failure, lasting_failure

_MOST_UNBUILT = 3


@dataclass
class Children:
    """Which children of a sweep are made, go on and have ended: what its rows say, kept at hand.

    Only the controller's thread uses it, but for `ended`, to which any thread may add.
    """

    unmade: deque[Trial] = field(default_factory=deque)
    """Stored, but without a run."""
    open: set[RunId] = field(default_factory=set)
    """Children that have not ended."""
    ended: deque[RunRecord] = field(default_factory=deque)
    """Those whose end the sweep has yet to take in."""
    is_exhausted: bool = False
    """No trial will be sampled any more."""
    barred: str = ""
    """Why no further child can be made, today or later; empty where nothing is in the way."""
    is_called_off: bool = False
    """It was said that its children are canceled."""
    _unbuilt: int = 0
    """Of how many children in a row, up to the last that ended, the environment could not be made."""

    def fill(self, there: Sequence[RunRecord], trials: Sequence[Trial]) -> None:
        """Take in the rows: the runs that were made, and all trials."""
        made = {child.id for child in there}
        self.open |= {child.id for child in there if not child.status.is_terminal}
        self.unmade.extend(trial for trial in trials if trial.child_id not in made)

    def newly_ended(self) -> Iterator[RunRecord]:
        """The children that have ended since they were last asked for."""
        with suppress(IndexError):
            while True:
                child = self.ended.popleft()
                self.open.discard(child.id)
                yield child

    def made(self, trial: Trial) -> None:
        """The first of the unmade has its run."""
        self.unmade.popleft()
        self.open.add(trial.child_id)

    def hopeless_build(self, ended: Iterable[RunRecord]) -> str:
        """Why no child can have its environment, from those that have just ended; empty where they tell no such thing.

        They all have one environment: what keeps it from being made for one of them, and will not pass, keeps it from
        all. What may pass has had its time after a few in a row.
        """
        why = ""
        for child in ended:
            error = build_failure(child)
            if error is not None:
                self._unbuilt += 1
            elif child.status is not RunStatus.CANCELED:
                self._unbuilt = 0
            is_hopeless = self._unbuilt >= _MOST_UNBUILT or lasting_failure(child) is not None
            if error is not None and is_hopeless and not why:
                cause = cause_text(error.get("message"))
                why = f"The cause, which holds for all children (as of {child.id}): {cause}"
        return why

    @property
    def has_more(self) -> bool:
        """Whether more children are to come."""
        return not self.barred and (bool(self.unmade) or not self.is_exhausted)
