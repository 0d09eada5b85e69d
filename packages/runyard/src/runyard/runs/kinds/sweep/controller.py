import contextlib
import logging
from collections.abc import Sequence
from datetime import timedelta

from runyard.core.errors import Conflict
from runyard.core.lookups import find_run
from runyard.core.records.runs import RunId, RunRecord, RunStatus
from runyard.runs.children import children_of
from runyard.runs.kinds.kind import KindTools
from runyard.runs.kinds.sweep.cancellation import TIME_OVER, SweepCanceller
from runyard.runs.kinds.sweep.checks import spec_of
from runyard.runs.kinds.sweep.finalizer import SweepFinalizer
from runyard.runs.kinds.sweep.live_sweep import LiveSweep, LiveSweeps
from runyard.runs.kinds.sweep.log import LogSource
from runyard.runs.kinds.sweep.progress import SweepProgress
from runyard.runs.kinds.sweep.trial_launcher import TrialLauncher

_S = RunStatus
log = logging.getLogger(__name__)
_LONGEST_MESSAGE = 1000
_TROUBLE = "The sweep cannot go on at the moment, which is tried again and again:"


class SweepController:
    """Advances sweeps, in the controller's thread only: starts children, cancels them, ends the sweep.

    All state is stored: trials, their runs, and which have ended. A `LiveSweep` is loaded from it at first use, so a
    service that was killed goes on where it stopped.
    """

    def __init__(self, tools: KindTools, live: LiveSweeps) -> None:
        self._runs, self._tools, self._live = tools.runs, tools, live
        self._launcher = TrialLauncher(tools)
        self._canceller = SweepCanceller(tools)
        self._finalizer = SweepFinalizer(tools)

    def child_ended(self, child: RunRecord) -> None:
        """Note that a run has ended; ignores runs that are not children of a live sweep. Thread-safe."""
        sweep = self._live.find(child.parent_id) if child.parent_id else None
        progress = sweep.progress if sweep else None
        if sweep is not None and progress is not None:
            progress.ended.append(child)
            self._tools.controller.wake(sweep.run_id)

    def reconcile(self, sweeps: Sequence[RunRecord], open_runs: set[RunId]) -> bool:
        """Find missed ends and take the next step of each sweep; return whether there is one."""
        for sweep in sweeps:
            self._find_missed_ends(sweep.id, open_runs)
            if self.advance(sweep.id):
                self._show_progress(sweep.id)
        return bool(sweeps)

    def lets_children_start(self, sweep: RunRecord) -> bool:
        return sweep.status is _S.RUNNING and not self._is_time_over(sweep)

    def advance(self, sweep_id: RunId) -> bool:
        """Take the next step of a sweep. False after an error, which its message shows; the next pass retries."""
        try:
            run = find_run(self._runs, sweep_id)
            if run is None or run.status.is_terminal:
                self._live.forget(sweep_id)
            else:
                live = self._live.of(run)
                self._step(run, live, live.progress or self._load_progress(run, live))
        except Conflict:  # another thread has changed it
            self._reload_progress(sweep_id)
            self._tools.controller.wake(sweep_id)
        except Exception as error:  # must not stop the other runs
            log.exception("Moving the sweep on failed; the next pass tries again.", extra={"run": sweep_id})
            self._live.forget(sweep_id)  # memory may be ahead of the stores
            self._set_message(sweep_id, f"{_TROUBLE} {error}"[:_LONGEST_MESSAGE])
            return False
        return True

    def _step(self, run: RunRecord, live: LiveSweep, progress: SweepProgress) -> None:
        ended = list(progress.newly_ended())
        for child in ended:
            live.note_ended(child)
        self._bar_if_unbuildable(live, progress, ended)
        if run.status is _S.NOT_STARTED:
            run = self._begin(run, live)
        is_time_over = self._is_time_over(run)
        is_over = run.status is _S.CANCEL_REQUESTED or is_time_over
        if is_over:
            self._cancel_children(run, live, progress)
        elif progress.has_more:
            self._launcher.fill(run, live, progress)
        if not progress.open and (is_over or not progress.has_more):
            end = self._finalizer.end_of(run, live, progress, is_time_over=is_time_over)
            live.log_lines(LogSource.CONTROLLER, *end.lines)
            self._finalizer.store(run, end)
            self._live.forget(run.id)

    def _begin(self, run: RunRecord, live: LiveSweep) -> RunRecord:
        spec, bound = live.spec, self._launcher.most_at_once(run, live.spec)
        live.log_lines(
            LogSource.API,
            f"Sweep {run.id} is begun: at most {spec.max_total_runs} children, {bound} at a time, for at most "
            f"{spec.max_duration_minutes} minutes. A child whose script fails ends nothing but itself.",
        )
        if spec.resume_from:
            live.log_lines(
                LogSource.API,
                f"It goes on from {', '.join(spec.resume_from)}: {len(live.known())} trials are known, which the "
                "sampling learns from and the policy compares with.",
            )
        if bound < spec.max_concurrent_runs:
            live.log_lines(
                LogSource.SCHEDULER,
                f"max_concurrent_runs is {spec.max_concurrent_runs}, but {run.target!r} has no nodes to wait for: "
                f"{bound} at a time, one for each CPU.",
            )
        return self._runs.move(run, _S.RUNNING, started_at=self._tools.clock.now())

    def _cancel_children(self, run: RunRecord, live: LiveSweep, progress: SweepProgress) -> None:
        live.stop_judging()
        why = "" if run.status is _S.CANCEL_REQUESTED else TIME_OVER
        if not progress.is_canceling:
            over = f"max_duration_minutes ({live.spec.max_duration_minutes}) is over"
            left_out = live.left_out(progress)
            counts = f"children that are canceled: {len(progress.open)}, trials that are not begun: {left_out}"
            live.log_lines(LogSource.CONTROLLER, f"{over if why else 'It was asked to cancel the sweep'}; {counts}.")
            progress.is_canceling = True
        if progress.open and self._canceller.cancel_next(run, why=why):
            self._tools.controller.wake(run.id)

    def _is_time_over(self, run: RunRecord) -> bool:
        if run.started_at is None:
            return False
        live = self._live.find(run.id)
        spec = live.spec if live else spec_of(run)
        return self._tools.clock.now() - run.started_at >= timedelta(minutes=spec.max_duration_minutes)

    def _load_progress(self, run: RunRecord, live: LiveSweep) -> SweepProgress:
        # Set before the rows are read, so that no end in between is missed.
        progress = live.progress = SweepProgress()
        there = children_of(self._runs, run)
        trials = live.trials
        progress.fill(there, trials)
        # A killed service may not have logged these.
        statuses = {child.id: child.status for child in there}
        unbegun = [trial for trial in trials if statuses.get(trial.child_id) is _S.NOT_STARTED]
        if unbegun:
            live.note_scheduled(*unbegun)
        # Children that only waited for another's build know less of the cause: they come last.
        tried_first = sorted(there, key=lambda child: (not child.attempt, child.sequence))
        ended = [child for child in tried_first if child.status.is_terminal]
        self._bar_if_unbuildable(live, progress, ended)
        return progress

    def _bar_if_unbuildable(self, live: LiveSweep, progress: SweepProgress, ended: Sequence[RunRecord]) -> None:
        why = progress.build_obstacle(ended)
        if why and not progress.barred:
            live.bar(progress, why)

    def _reload_progress(self, sweep_id: RunId) -> None:
        live = self._live.find(sweep_id)
        if live is not None:
            live.progress = None

    def _find_missed_ends(self, sweep_id: RunId, open_runs: set[RunId]) -> None:
        """Handle ends of children that `child_ended` was not called for."""
        live = self._live.find(sweep_id)
        if live is None or live.progress is None:
            return
        for child_id in live.progress.open - open_runs:
            child = find_run(self._runs, child_id)
            if child is None:
                live.progress.open.discard(child_id)
            elif child.status.is_terminal:
                self.child_ended(child)

    def _show_progress(self, sweep_id: RunId) -> None:
        live = self._live.find(sweep_id)
        if live is not None and live.progress is not None:
            made = len(live.trials) - len(live.progress.pending)
            self._set_message(sweep_id, f"{made} children so far, of which {len(live.progress.open)} have not ended.")

    def _set_message(self, sweep_id: RunId, message: str) -> None:
        with contextlib.suppress(Exception):  # the disk may be full: then it cannot be stored
            if self._runs.get(sweep_id).message != message:
                self._runs.update(sweep_id, message=message)
