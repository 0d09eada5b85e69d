import contextlib
import logging
from collections.abc import Sequence
from datetime import timedelta

from runyard.controller.sweeps.calling_off import TIME_OVER, CallingOff
from runyard.controller.sweeps.filling import ChildMover, Filling, SweepSurroundings
from runyard.controller.sweeps.finishing import Finishing
from runyard.controller.sweeps.underway import Underway
from runyard.errors import Conflict, NotFound
from runyard.model.runs import RunId, RunRecord, RunStatus
from runyard.model.sweeps import SWEEP_TYPE
from runyard.ports.blobs import LogStore
from runyard.ports.clock import Clock
from runyard.ports.stores import RunStore
from runyard.services.children import children_of
from runyard.services.sweeps.asked import spec_of
from runyard.services.sweeps.sweep_log import Source

_S = RunStatus
log = logging.getLogger(__name__)
_MOST_SAID = 1000
_TROUBLE = "The sweep cannot go on at the moment, which is tried again and again:"


class Sweeps:
    """Moves sweeps on by their children. Of one sweep only the controller's thread takes a step.

    The rows tell all: which trials there are, which of them have a run, which runs have ended. What is kept here is
    made from them at the first look, so a service that was killed anywhere goes on where it was.
    """

    def __init__(
        self, runs: RunStore, logs: LogStore, clock: Clock, around: SweepSurroundings, mover: ChildMover
    ) -> None:
        self._runs, self._clock, self._around, self._mover = runs, clock, around, mover
        self._filling = Filling(runs, clock, around, mover)
        self._calling_off = CallingOff(runs, mover.cancel)
        self._finishing = Finishing(runs, around.trials, logs, clock)
        self._underway: dict[RunId, Underway] = {}

    def heard_end(self, child: RunRecord) -> None:
        """From any thread, of any run that has ended."""
        if child.parent_id is None:
            return
        underway = self._underway.get(child.parent_id)
        if underway is not None:
            underway.heard.append(child)
            self._mover.wake(child.parent_id)

    def look(self, unfinished: Sequence[RunRecord]) -> bool:
        """Take the next step of each sweep, whatever was heard of it; whether there is one."""
        open_runs = {run.id for run in unfinished}
        sweeps = [run.id for run in unfinished if run.type == SWEEP_TYPE]
        for sweep_id in sweeps:
            self._mend(sweep_id, open_runs)
            if self.advance(sweep_id):
                self._tell_progress(sweep_id)
        return bool(sweeps)

    def let_children_start(self, parent_id: RunId) -> bool:
        """False where that run is a sweep that wants no more of its children to start."""
        parent = self._find(parent_id)
        if parent is None or parent.type != SWEEP_TYPE:
            return True
        return parent.status is _S.RUNNING and not self._is_time_over(parent)

    def advance(self, sweep_id: RunId) -> bool:
        """Take the next step of a sweep. False where that went wrong: it is said on it, and tried at the next look."""
        try:
            run = self._find(sweep_id)
            if run is None or run.status.is_terminal:
                self._forget(sweep_id)
            else:
                self._step(run, self._of(run))
        except Conflict:  # somebody else changed it this very moment
            self._underway.pop(sweep_id, None)
            self._mover.wake(sweep_id)
        except Exception as error:  # one sweep's trouble is not that of all other runs
            log.exception("Moving the sweep on failed; the next pass tries again.", extra={"run": sweep_id})
            self._forget(sweep_id)  # what is in memory may be ahead of what is stored
            self._tell(sweep_id, f"{_TROUBLE} {error}"[:_MOST_SAID])
            return False
        return True

    def _step(self, run: RunRecord, underway: Underway) -> None:
        ended = list(underway.newly_ended())
        for child in ended:
            underway.live.note_ended(child)
        underway.bar_where_none_can_be_built(ended)
        if run.status is _S.NOT_STARTED:
            run = self._begin(run, underway)
        is_time_over = self._is_time_over(run)
        is_over = run.status is _S.CANCEL_REQUESTED or is_time_over
        if is_over:
            self._call_off(run, underway)
        elif underway.has_more:
            self._filling.fill(run, underway)
        if not underway.open and (is_over or not underway.has_more):
            end = self._finishing.end_of(run, underway, is_time_over=is_time_over)
            underway.live.say(Source.CONTROLLER, *end.lines)
            self._finishing.store(run, end)
            self._forget(run.id)

    def _begin(self, run: RunRecord, underway: Underway) -> RunRecord:
        spec, bound = underway.live.spec, self._filling.most_at_once(run, underway.live.spec)
        underway.live.say(
            Source.API,
            f"Sweep {run.id} is begun: at most {spec.max_total_runs} children, {bound} at a time, for at most "
            f"{spec.max_duration_minutes} minutes. A child whose script fails ends nothing but itself.",
        )
        if spec.resume_from:
            underway.live.say(
                Source.API,
                f"It goes on from {', '.join(spec.resume_from)}: {len(underway.live.known())} trials are known, which "
                "the sampling learns from and the policy compares with.",
            )
        if bound < spec.max_concurrent_runs:
            underway.live.say(
                Source.SCHEDULER,
                f"max_concurrent_runs is {spec.max_concurrent_runs}, but {run.target!r} has no nodes to wait for: "
                f"{bound} at a time, one for each CPU.",
            )
        return self._runs.move(run, _S.RUNNING, started_at=self._clock.now())

    def _call_off(self, run: RunRecord, underway: Underway) -> None:
        underway.live.stop_judging()
        why = "" if run.status is _S.CANCEL_REQUESTED else TIME_OVER
        if not underway.is_called_off:
            over = f"max_duration_minutes ({underway.live.spec.max_duration_minutes}) is over"
            counts = f"children that are canceled: {len(underway.open)}, trials that are not begun: {underway.left_out}"
            underway.live.say(Source.CONTROLLER, f"{over if why else 'It was asked to cancel the sweep'}; {counts}.")
            underway.is_called_off = True
        if underway.open and self._calling_off.go_on(run, why=why):
            self._mover.wake(run.id)

    def _is_time_over(self, run: RunRecord) -> bool:
        if run.started_at is None:
            return False
        underway = self._underway.get(run.id)
        spec = underway.live.spec if underway else spec_of(run)
        return self._clock.now() - run.started_at >= timedelta(minutes=spec.max_duration_minutes)

    def _find(self, run_id: RunId) -> RunRecord | None:
        try:
            return self._runs.get(run_id)
        except NotFound:
            return None

    def _of(self, run: RunRecord) -> Underway:
        live = self._around.live.of(run)
        found = self._underway.get(run.id)
        if found is not None:
            found.live = live
            return found
        # Known before the rows are read, so that no end is missed that comes meanwhile.
        underway = self._underway[run.id] = Underway(live)
        children = children_of(self._runs, run)
        there = {child.id: child.status for child in children}
        underway.open |= {child_id for child_id, status in there.items() if not status.is_terminal}
        underway.unmade.extend(trial for trial in live.trials if trial.child_id not in there)
        # Of these a killed service may not have said it.
        unbegun = [trial for trial in live.trials if there.get(trial.child_id) is _S.NOT_STARTED]
        if unbegun:
            live.note_scheduled(*unbegun)
        # Who had only waited for the build of another says so, and less of the cause: they come last.
        tried_first = sorted(children, key=lambda child: (not child.attempt, child.sequence))
        underway.bar_where_none_can_be_built(child for child in tried_first if child.status.is_terminal)
        return underway

    def _mend(self, sweep_id: RunId, open_runs: set[RunId]) -> None:
        """Ends that nobody was told of."""
        underway = self._underway.get(sweep_id)
        if underway is None:
            return
        for child_id in underway.open - open_runs:
            child = self._find(child_id)
            if child is None:
                underway.open.discard(child_id)
            elif child.status.is_terminal:
                self.heard_end(child)

    def _forget(self, sweep_id: RunId) -> None:
        self._underway.pop(sweep_id, None)
        self._around.live.forget(sweep_id)

    def _tell_progress(self, sweep_id: RunId) -> None:
        underway = self._underway.get(sweep_id)
        if underway is not None:
            made = len(underway.live.trials) - len(underway.unmade)
            self._tell(sweep_id, f"{made} children so far, of which {len(underway.open)} have not ended.")

    def _tell(self, sweep_id: RunId, message: str) -> None:
        with contextlib.suppress(Exception):  # the disk may be full: then there is nowhere to say it
            if self._runs.get(sweep_id).message != message:
                self._runs.update(sweep_id, message=message)
