import contextlib
import logging
from collections.abc import Sequence
from datetime import timedelta

from runyard.errors import Conflict, NotFound
from runyard.model.runs import RunId, RunRecord, RunStatus
from runyard.runs.children import children_of
from runyard.runs.kinds.kind import KindTools
from runyard.runs.kinds.sweep.checks import spec_of
from runyard.runs.kinds.sweep.children import Children
from runyard.runs.kinds.sweep.ending import Finishing
from runyard.runs.kinds.sweep.live import LiveSweeps
from runyard.runs.kinds.sweep.live_sweep import LiveSweep
from runyard.runs.kinds.sweep.log import Source
from runyard.runs.kinds.sweep.making import Making
from runyard.runs.kinds.sweep.stopping import TIME_OVER, CallingOff

_S = RunStatus
log = logging.getLogger(__name__)
_MOST_SAID = 1000
_TROUBLE = "The sweep cannot go on at the moment, which is tried again and again:"


class SweepSteps:
    """Moves sweeps on by their children. Of one sweep only the controller's thread takes a step.

    The rows tell all: which trials there are, which of them have a run, which runs have ended. What a `LiveSweep`
    knows is made from them at the first look, so a service that was killed anywhere goes on where it was.
    """

    def __init__(self, tools: KindTools, live: LiveSweeps) -> None:
        self._runs, self._tools, self._live = tools.runs, tools, live
        self._making = Making(tools)
        self._calling_off = CallingOff(tools)
        self._finishing = Finishing(tools)

    def child_ended(self, child: RunRecord) -> None:
        """From any thread, of any run that has ended."""
        sweep = self._live.find(child.parent_id) if child.parent_id else None
        children = sweep.children if sweep else None
        if sweep is not None and children is not None:
            children.ended.append(child)
            self._tools.controller.wake(sweep.run_id)

    def look(self, sweeps: Sequence[RunRecord], open_runs: set[RunId]) -> bool:
        """Take the next step of each sweep, whatever was heard of it; whether there is one."""
        for sweep in sweeps:
            self._find_missed_ends(sweep.id, open_runs)
            if self.advance(sweep.id):
                self._tell_progress(sweep.id)
        return bool(sweeps)

    def lets_children_start(self, sweep: RunRecord) -> bool:
        return sweep.status is _S.RUNNING and not self._is_time_over(sweep)

    def advance(self, sweep_id: RunId) -> bool:
        """Take the next step of a sweep. False where that went wrong: it is said on it, and tried at the next look."""
        try:
            run = self._find(sweep_id)
            if run is None or run.status.is_terminal:
                self._live.forget(sweep_id)
            else:
                live = self._live.of(run)
                self._step(run, live, live.children or self._read_children(run, live))
        except Conflict:  # somebody else changed it this very moment
            self._read_children_again(sweep_id)
            self._tools.controller.wake(sweep_id)
        except Exception as error:  # one sweep's trouble is not that of all other runs
            log.exception("Moving the sweep on failed; the next pass tries again.", extra={"run": sweep_id})
            self._live.forget(sweep_id)  # what is in memory may be ahead of what is stored
            self._tell(sweep_id, f"{_TROUBLE} {error}"[:_MOST_SAID])
            return False
        return True

    def _step(self, run: RunRecord, live: LiveSweep, children: Children) -> None:
        ended = list(children.newly_ended())
        for child in ended:
            live.note_ended(child)
        self._bar_where_none_can_be_built(live, children, ended)
        if run.status is _S.NOT_STARTED:
            run = self._begin(run, live)
        is_time_over = self._is_time_over(run)
        is_over = run.status is _S.CANCEL_REQUESTED or is_time_over
        if is_over:
            self._call_off(run, live, children)
        elif children.has_more:
            self._making.fill(run, live, children)
        if not children.open and (is_over or not children.has_more):
            end = self._finishing.end_of(run, live, children, is_time_over=is_time_over)
            live.say(Source.CONTROLLER, *end.lines)
            self._finishing.store(run, end)
            self._live.forget(run.id)

    def _begin(self, run: RunRecord, live: LiveSweep) -> RunRecord:
        spec, bound = live.spec, self._making.most_at_once(run, live.spec)
        live.say(
            Source.API,
            f"Sweep {run.id} is begun: at most {spec.max_total_runs} children, {bound} at a time, for at most "
            f"{spec.max_duration_minutes} minutes. A child whose script fails ends nothing but itself.",
        )
        if spec.resume_from:
            live.say(
                Source.API,
                f"It goes on from {', '.join(spec.resume_from)}: {len(live.known())} trials are known, which the "
                "sampling learns from and the policy compares with.",
            )
        if bound < spec.max_concurrent_runs:
            live.say(
                Source.SCHEDULER,
                f"max_concurrent_runs is {spec.max_concurrent_runs}, but {run.target!r} has no nodes to wait for: "
                f"{bound} at a time, one for each CPU.",
            )
        return self._runs.move(run, _S.RUNNING, started_at=self._tools.clock.now())

    def _call_off(self, run: RunRecord, live: LiveSweep, children: Children) -> None:
        live.stop_judging()
        why = "" if run.status is _S.CANCEL_REQUESTED else TIME_OVER
        if not children.is_called_off:
            over = f"max_duration_minutes ({live.spec.max_duration_minutes}) is over"
            left_out = live.left_out(children)
            counts = f"children that are canceled: {len(children.open)}, trials that are not begun: {left_out}"
            live.say(Source.CONTROLLER, f"{over if why else 'It was asked to cancel the sweep'}; {counts}.")
            children.is_called_off = True
        if children.open and self._calling_off.go_on(run, why=why):
            self._tools.controller.wake(run.id)

    def _is_time_over(self, run: RunRecord) -> bool:
        if run.started_at is None:
            return False
        live = self._live.find(run.id)
        spec = live.spec if live else spec_of(run)
        return self._tools.clock.now() - run.started_at >= timedelta(minutes=spec.max_duration_minutes)

    def _read_children(self, run: RunRecord, live: LiveSweep) -> Children:
        # Known before the rows are read, so that no end is missed that comes meanwhile.
        children = live.children = Children()
        there = children_of(self._runs, run)
        trials = live.trials
        children.fill(there, trials)
        # Of these a killed service may not have said it.
        statuses = {child.id: child.status for child in there}
        unbegun = [trial for trial in trials if statuses.get(trial.child_id) is _S.NOT_STARTED]
        if unbegun:
            live.note_scheduled(*unbegun)
        # Who had only waited for the build of another says so, and less of the cause: they come last.
        tried_first = sorted(there, key=lambda child: (not child.attempt, child.sequence))
        ended = [child for child in tried_first if child.status.is_terminal]
        self._bar_where_none_can_be_built(live, children, ended)
        return children

    def _bar_where_none_can_be_built(self, live: LiveSweep, children: Children, ended: Sequence[RunRecord]) -> None:
        why = children.hopeless_build(ended)
        if why and not children.barred:
            live.bar(children, why)

    def _read_children_again(self, sweep_id: RunId) -> None:
        live = self._live.find(sweep_id)
        if live is not None:
            live.children = None

    def _find_missed_ends(self, sweep_id: RunId, open_runs: set[RunId]) -> None:
        """Ends that nobody was told of."""
        live = self._live.find(sweep_id)
        if live is None or live.children is None:
            return
        for child_id in live.children.open - open_runs:
            child = self._find(child_id)
            if child is None:
                live.children.open.discard(child_id)
            elif child.status.is_terminal:
                self.child_ended(child)

    def _find(self, run_id: RunId) -> RunRecord | None:
        try:
            return self._runs.get(run_id)
        except NotFound:
            return None

    def _tell_progress(self, sweep_id: RunId) -> None:
        live = self._live.find(sweep_id)
        if live is not None and live.children is not None:
            made = len(live.trials) - len(live.children.unmade)
            self._tell(sweep_id, f"{made} children so far, of which {len(live.children.open)} have not ended.")

    def _tell(self, sweep_id: RunId, message: str) -> None:
        with contextlib.suppress(Exception):  # the disk may be full: then there is nowhere to say it
            if self._runs.get(sweep_id).message != message:
                self._runs.update(sweep_id, message=message)
