import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from runyard.controller.sweeps.trial_runs import run_of_trial
from runyard.controller.sweeps.underway import Underway
from runyard.errors import AlreadyExists, NotFound
from runyard.model.runs import RunId, RunRecord
from runyard.model.sweeps import SweepSpec, Trial
from runyard.ports.clock import Clock
from runyard.ports.stores import RunStore, TrialStore
from runyard.services.places import UNMANAGED_TARGETS
from runyard.services.sweeps.live import LiveSweeps

_QUICK_SAMPLINGS = frozenset({"RANDOM", "GRID"})
_MADE_IN_ONE_GO = 25
"""So many children are made before others get the controller's attention."""


@dataclass(frozen=True)
class SweepSurroundings:
    """What sweeps need around them."""

    trials: TrialStore
    live: LiveSweeps
    note_inputs: Callable[[RunRecord], None] = lambda run: None
    """Told of each child that is made."""
    most_unmanaged: int = 1
    """How many children at a time a target takes that has no nodes to wait for."""


@dataclass(frozen=True)
class ChildMover:
    """What the controller does for a sweep's children, and for the sweep."""

    advance: Callable[[Sequence[RunId]], None]
    cancel: Callable[[RunId], None]
    wake: Callable[[RunId], None]


class Filling:
    """Makes the children of sweeps: as many as may go on at a time."""

    def __init__(self, runs: RunStore, clock: Clock, around: SweepSurroundings, mover: ChildMover) -> None:
        self._runs, self._clock, self._around, self._mover = runs, clock, around, mover

    def most_at_once(self, sweep: RunRecord, spec: SweepSpec) -> int:
        most = spec.max_concurrent_runs
        return min(most, self._around.most_unmanaged) if sweep.target in UNMANAGED_TARGETS else most

    def fill(self, sweep: RunRecord, underway: Underway) -> None:
        """Have as many children as may go on. Of many, others get a turn in between."""
        spec = underway.live.spec
        room = self.most_at_once(sweep, spec) - len(underway.open)
        now = min(room, _MADE_IN_ONE_GO if spec.sampling in _QUICK_SAMPLINGS else 1)
        if now <= 0:
            return
        made = self._make_next(sweep, underway, now)
        if made:
            underway.live.note_scheduled(*made)
            self._mover.advance([trial.child_id for trial in made])
        if now < room and underway.has_more:
            self._mover.wake(sweep.id)

    def _make_next(self, sweep: RunRecord, underway: Underway, count: int) -> Sequence[Trial]:
        """The trials that have their run now. The sweep is barred where the next can never have one."""
        made: list[Trial] = []
        try:
            for trial in underway.next_trials(count):
                self._make(sweep, trial)
                underway.made(trial)
                made.append(trial)
        except (AlreadyExists, NotFound) as error:
            underway.bar(str(error))
        return made

    def _make(self, sweep: RunRecord, trial: Trial) -> None:
        """Raises AlreadyExists where a run that is no child of the sweep has the child's id."""
        try:
            child = self._runs.create(run_of_trial(sweep, trial, self._clock.now()))
        except AlreadyExists:
            child = self._runs.get(trial.child_id)
            if child.parent_id != sweep.id:
                raise AlreadyExists(
                    f"The id of its next child, {child.id}, is that of another run (of {child.experiment!r} in "
                    f"workspace {child.workspace!r})."
                ) from None
        with contextlib.suppress(NotFound):  # a dataset that is gone: the child says so when it is started
            self._around.note_inputs(child)
