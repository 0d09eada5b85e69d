from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from runyard.controller.failed_builds import build_failure, lasting_failure
from runyard.model.runs import RunId, RunRecord, RunStatus
from runyard.model.sweeps import Trial
from runyard.services.sweeps.causes import cause_text
from runyard.services.sweeps.live_sweep import LiveSweep
from runyard.services.sweeps.sweep_log import Source
from runyard.tuning.samplers import most_trials

_MOST_UNBUILT = 3


@dataclass
class Underway:
    """How far a sweep has come: what its rows say, kept at hand. Only the controller's thread changes it, but for
    `heard`, to which ends are added by whoever ends a child."""

    live: LiveSweep
    unmade: deque[Trial] = field(default_factory=deque)
    """Stored, but without a run."""
    open: set[RunId] = field(default_factory=set)
    """Children that have not ended."""
    heard: deque[RunRecord] = field(default_factory=deque)
    is_exhausted: bool = False
    """No trial will be sampled any more."""
    barred: str = ""
    """Why no further child can be made, today or later; empty where nothing is in the way."""
    is_called_off: bool = False
    """It was said that its children are canceled."""
    _unbuilt: int = 0
    """Of how many children in a row, up to the last that ended, the environment could not be made."""

    def newly_ended(self) -> Iterator[RunRecord]:
        """The children that have ended since they were last asked for."""
        with suppress(IndexError):
            while True:
                child = self.heard.popleft()
                self.open.discard(child.id)
                yield child

    def next_trials(self, count: int) -> Sequence[Trial]:
        """Those that are to be tried next, stored; fewer than asked for, or none, where no more are left."""
        missing = count - len(self.unmade)
        if missing > 0 and not self.is_exhausted:
            sampled = self.live.sample(missing)
            self.unmade.extend(sampled)
            self.is_exhausted = len(sampled) < missing
        return list(self.unmade)[:count]

    def made(self, trial: Trial) -> None:
        """The first of the unmade has its run."""
        self.unmade.popleft()
        self.open.add(trial.child_id)

    def bar(self, why: str) -> None:
        """Have no further child made."""
        self.barred = why
        self.live.say(Source.CONTROLLER, f"No further children are made. {why}")

    def bar_where_none_can_be_built(self, ended: Iterable[RunRecord]) -> None:
        """They all have one environment: what keeps it from being made for one of them, and will not pass, keeps it
        from all. What may pass has had its time after a few in a row."""
        for child in ended:
            error = build_failure(child)
            if error is not None:
                self._unbuilt += 1
            elif child.status is not RunStatus.CANCELED:
                self._unbuilt = 0
            is_hopeless = self._unbuilt >= _MOST_UNBUILT or lasting_failure(child) is not None
            if error is not None and is_hopeless and not self.barred:
                cause = cause_text(error.get("message"))
                self.bar(f"The cause, which holds for all children (as of {child.id}): {cause}")

    @property
    def has_more(self) -> bool:
        """Whether more children are to come."""
        return not self.barred and (bool(self.unmade) or not self.is_exhausted)

    @property
    def left_out(self) -> int:
        """How many trials would have no run if it ended now."""
        return max(0, most_trials(self.live.spec) - len(self.live.trials) + len(self.unmade))
