import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from runyard.core.errors import NotFound
from runyard.core.records.runs import RunId, RunRecord, RunStatus
from runyard.core.records.sweeps import Trial, TrialStop
from runyard.runs.history.journals import Delivered
from runyard.runs.kinds.kind import KindTools
from runyard.runs.kinds.sweep.cancellation import TrialStopper, may_be_stopped
from runyard.runs.kinds.sweep.checks import is_sweep, spec_of
from runyard.runs.kinds.sweep.early_stopping.policies import policy_of, policy_warning
from runyard.runs.kinds.sweep.log import LogSource, SweepLogs, best_line, non_number_text, sampled_line, scheduled_line
from runyard.runs.kinds.sweep.metric_listener import first_non_number
from runyard.runs.kinds.sweep.progress import SweepProgress
from runyard.runs.kinds.sweep.sampling.observations import KnownTrial
from runyard.runs.kinds.sweep.sampling.samplers import most_trials, sampler_of, seed_of
from runyard.runs.kinds.sweep.spec import ignored_policy
from runyard.runs.kinds.sweep.state import BestTrial
from runyard.runs.kinds.sweep.stored_sweep import (
    SweepStores,
    load_sweep,
    log_missing_lines,
    record_trial_end,
    resumed_values,
)

_SAMPLING = -2
"""Key of sampling for `_exclusive`; the key of a trial is its number."""
_NUMBERS_AT_ONCE = 1_000
_PAUSE_SECONDS = 0.001


class LiveSweep:
    """An unfinished sweep in memory, and the only object that changes it.

    It samples trials, collects the numbers that their runs log, stops trials by the policy, and knows which children
    are created, running and ended. Everything is stored first, so a killed service loses nothing.

    Locking. A sweep has one lock, `_lock`:
    - Any thread that holds it may read and change what trials have logged (`_state`, `_due`, warnings given).
    - Work that takes the lock several times runs in `_exclusive`: deliveries of one trial, its end, and samplings then
      run one after another, while other threads get the lock in between. No thread waits for a key of `_exclusive`
      while it holds the lock or another key.
    - A decision to stop is stored under the lock. Sampling, and canceling runs, may take long: they happen without it.
    - `progress` belongs to the controller's thread and needs no lock; other threads only append to its `ended`.
    """

    def __init__(self, sweep: RunRecord, stores: SweepStores) -> None:
        """Load the sweep from the stores. Raises InvalidArgument if the run's definition has no sweep."""
        self.run_id: RunId = sweep.id
        self.spec = spec_of(sweep)
        self.progress: SweepProgress | None = None
        self._stores = stores
        self._policy = policy_of(self.spec)
        self._sampler = sampler_of(self.spec, seed_of(self.spec, sweep.id))
        self._lock = threading.Condition(threading.Lock())
        self._held_keys: set[int] = set()
        self._is_judging = sweep.status is not RunStatus.CANCEL_REQUESTED
        self._warned_non_number: set[int] = set()
        self._has_warned_of_policy = False
        loaded = load_sweep(sweep.id, self.spec, stores, self._policy)
        self._state, self._due = loaded.state, loaded.due

    @property
    def trials(self) -> Sequence[Trial]:
        """All trials, sorted by number."""
        with self._lock:
            return list(self._state.trials.values())

    @property
    def best(self) -> BestTrial | None:
        """Best of its own trials so far."""
        with self._lock:
            return self._state.best

    def known(self) -> Sequence[KnownTrial]:
        """Trials that the sampler learns from: those of sweeps it resumes from, then its own."""
        with self._lock:
            return self._state.known

    def sample(self, count: int) -> Sequence[Trial]:
        """Sample and store the next trials; fewer than `count` if no more are left.

        The first call takes all of `resume_child_runs` first, even if these are more than `count`, since the runs may
        be deleted later. Raises NotFound if one is deleted already.
        """
        with self._exclusive(_SAMPLING):
            sampled = self._resumed()
            while len(sampled) < count and (trial := self._next_trial(sampled)) is not None:
                sampled.append(trial)
            self._stores.trials.add(sampled)
            with self._lock:
                for trial in sampled:
                    self._state.take(trial)
            self._stores.logs.write(self.run_id, LogSource.GENERATOR, *map(sampled_line, sampled))
        return sampled

    def next_trials(self, progress: SweepProgress, count: int) -> Sequence[Trial]:
        """Trials to start next, stored; fewer than `count` if no more are left."""
        missing = count - len(progress.pending)
        if missing > 0 and not progress.is_exhausted:
            sampled = self.sample(missing)
            progress.pending.extend(sampled)
            progress.is_exhausted = len(sampled) < missing
        return list(progress.pending)[:count]

    def bar(self, progress: SweepProgress, why: str) -> None:
        """Create no further children, for the given reason."""
        progress.barred = why
        self.log_lines(LogSource.CONTROLLER, f"No further children are made. {why}")

    def left_out(self, progress: SweepProgress) -> int:
        """Number of trials that would have no run if the sweep ended now."""
        with self._lock:
            return max(0, most_trials(self.spec) - len(self._state.trials) + len(progress.pending))

    def note_scheduled(self, *trials: Trial) -> None:
        self._stores.logs.write(self.run_id, LogSource.SCHEDULER, *map(scheduled_line, trials))

    def note_ended(self, child: RunRecord) -> None:
        """Note the end of a child, so that the sampler learns from it. Safe to repeat; ignores other runs."""
        number, state = trial_number(child), self._state
        with self._exclusive(number), self._lock:
            if number not in state.trials or state.has_ended(number):
                return
            trial = state.trials[number]
            state.add_rest(number)
            state.end(number)
            self._renew_best(number)
            line = record_trial_end(child, trial, self.spec, state, self._stores)
        self.log_lines(LogSource.CONTROLLER, line)

    def stop_judging(self) -> None:
        """Stop applying the policy, since the sweep itself is ending."""
        with self._lock:
            self._is_judging = False

    def log_lines(self, source: LogSource, *texts: str) -> None:
        """Append lines to hyperdrive.txt."""
        self._stores.logs.write(self.run_id, source, *texts)

    def logged(self, child: RunRecord, delivered: Delivered) -> None:
        """Add the numbers that a child has logged; stop it if the policy says so."""
        number = trial_number(child)
        with self._exclusive(number):
            stopped = self._add_numbers(number, child, delivered)
        self._warn_non_number(number, child, delivered)
        if stopped is not None:
            self._stores.stops.stop_trial(stopped)
            self._warn_of_policy(stopped)

    def catch_up(self, sweep: RunRecord) -> None:
        """Do what a killed service had decided but not done: stop trials, write missing log lines."""
        ignored = ignored_policy(self.spec)
        if ignored is not None:
            self._warn(ignored, sweep)
        log_missing_lines(self.run_id, self.spec, self._state, self._stores)
        with self._lock:
            for number, stop in self._due.items() if self._is_judging else ():
                self._stop(number, stop)
            self._due = {}
            undone = [one for number, one in self._state.trials.items() if not self._state.has_ended(number)]
        for trial in undone:
            self._stores.stops.stop_trial(trial)
        for trial in self.trials:
            self._warn_of_policy(trial)

    @contextmanager
    def _exclusive(self, key: int) -> Iterator[None]:
        """Hold the key of a trial, or of sampling, in the block; wait while another thread holds it."""
        with self._lock:
            while key in self._held_keys:
                self._lock.wait()
            self._held_keys.add(key)
        try:
            yield
        finally:
            with self._lock:
                self._held_keys.discard(key)
                self._lock.notify_all()

    def _resumed(self) -> list[Trial]:
        """Trials of `resume_child_runs` that were not taken yet."""
        with self._lock:
            first = self._state.next_number
        earlier = self.spec.resume_child_runs[first:]
        values = resumed_values(self._stores.trials, earlier)
        pairs = enumerate(zip(earlier, values, strict=True), first)
        return [Trial(self.run_id, number, given, resumed_from=whence) for number, (whence, given) in pairs]

    def _next_trial(self, sampled: Sequence[Trial]) -> Trial | None:
        with self._lock:
            number = self._state.next_number + len(sampled)
            known = self._state.known
        if number >= most_trials(self.spec):
            return None
        pending = [KnownTrial(trial.values, is_pending=True) for trial in sampled]
        values = self._sampler.sample(number, [*known, *pending])
        return None if values is None else Trial(self.run_id, number, values)

    def _add_numbers(self, number: int, child: RunRecord, delivered: Delivered) -> Trial | None:
        """Add new numbers; return the trial with its stop if the policy stops it. Releases the lock in between."""
        stopped: Trial | None = None
        with self._lock:
            if number not in self._state.trials:
                return None
            fresh = self._state.listener.fresh(number, child.id, delivered)
        for start in range(0, len(fresh), _NUMBERS_AT_ONCE):
            if start:
                time.sleep(_PAUSE_SECONDS)  # or the waiting threads would never get the lock
            with self._lock:
                stopped = self._judged(number, child, fresh[start : start + _NUMBERS_AT_ONCE]) or stopped
        with self._lock:
            self._renew_best(number)
        return stopped

    def _judged(self, number: int, child: RunRecord, fresh: Sequence[float]) -> Trial | None:
        """Add the numbers one by one, and let the policy judge each."""
        state, stop = self._state, None
        is_judged = self._is_judging and state.trials[number].stop is None and may_be_stopped(child.status)
        for value in fresh:
            state.histories.append(number, value)
            if is_judged and stop is None:
                stop = self._policy.judge(number, state.histories)
        return None if stop is None else self._stop(number, stop)

    def _renew_best(self, number: int) -> None:
        if self._state.renew_best(number) and self._state.best is not None:
            self.log_lines(LogSource.CONTROLLER, best_line(self._state.best, self.spec.metric))

    def _stop(self, number: int, stop: TrialStop) -> Trial | None:
        """Store the decision to stop; None if the trial is ending already, or the decision is stored already."""
        trial = replace(self._state.trials[number], stop=stop)
        if not self._stores.stops.goes_on(trial.child_id):
            return None
        self._state.trials[number] = trial
        return trial if self._stores.trials.stop(self.run_id, number, stop) else None

    def _warn_of_policy(self, trial: Trial) -> None:
        warning = None if trial.stop is None else policy_warning(self.spec, trial.stop)
        if warning is None:
            return
        with self._lock:
            is_first, self._has_warned_of_policy = not self._has_warned_of_policy, True
        if is_first:
            self._warn(warning, self._stores.runs.get(self.run_id))

    def _warn(self, text: str, sweep: RunRecord) -> None:
        if text not in sweep.warnings:
            self.log_lines(LogSource.CONTROLLER, text)
            self._stores.runs.update(self.run_id, warnings=(text,))

    def _warn_non_number(self, number: int, child: RunRecord, delivered: Delivered) -> None:
        shown = first_non_number(self.spec.metric, delivered.batches)
        if shown is None:
            return
        with self._lock:
            is_first = number not in self._warned_non_number
            self._warned_non_number.add(number)
        if is_first and not any(one.startswith(non_number_text(self.spec.metric)) for one in child.warnings):
            text = non_number_text(self.spec.metric, shown)
            self.log_lines(LogSource.CONTROLLER, f"{child.id} logs no number: {text}")
            self._stores.runs.update(child.id, warnings=(text,))


def trial_number(child: RunRecord) -> int:
    """Number of the trial that the run is; -1 for a run that is not a trial."""
    digits = child.id.removeprefix(f"{child.parent_id}_")
    is_number = digits.isascii() and digits.isdecimal() and digits != child.id
    return int(digits) if is_number and str(int(digits)) == digits else -1


_MOST_NO_SWEEPS = 10_000
log = logging.getLogger(__name__)


class LiveSweeps:
    """Unfinished sweeps: one `LiveSweep` for each, shared by all threads from its first use to its end.

    A lookup takes no lock. `_loading` is held while a sweep is read from the store, so that there are never two
    objects for one sweep. It is taken before the lock of a sweep.
    """

    def __init__(self, tools: KindTools) -> None:
        self._runs = tools.runs
        logs = SweepLogs(tools.logs, tools.clock)
        self._stores = SweepStores(tools.runs, tools.metrics, tools.trials, logs, TrialStopper(tools, logs))
        self._loading = threading.Lock()
        self._kept: dict[RunId, LiveSweep] = {}
        self._no_sweeps: set[RunId] = set()

    def of(self, sweep: RunRecord) -> LiveSweep:
        """LiveSweep of a run. The first call loads it from the whole record and catches up with what a killed service
        left undone. A finished sweep is loaded but not kept. Raises InvalidArgument for a run that is not a sweep."""
        found = self.find(sweep.id)
        if found is not None:
            return found
        with self._loading:
            found = self.find(sweep.id)
            if found is not None:
                return found
            live = LiveSweep(sweep, self._stores)
            if sweep.status.is_terminal:
                return live
            self._kept[sweep.id] = live
        try:
            live.catch_up(sweep)
        except Exception:
            self.forget(sweep.id)
            raise
        return live

    def find(self, sweep_id: RunId) -> LiveSweep | None:
        """A sweep that is loaded already; None otherwise."""
        return self._kept.get(sweep_id)

    def forget(self, sweep_id: RunId) -> None:
        """Drop a sweep that has ended, is gone or must be loaded again; does nothing if it is unknown."""
        self._kept.pop(sweep_id, None)

    def logged(self, run: RunRecord, delivered: Delivered) -> None:
        """Handle what a run has logged; cheap for runs that are not trials. Never raises: it is stored already."""
        if run.parent_id is None or run.is_interactive or trial_number(run) < 0:
            return
        try:
            sweep = self._sweep_of(run.parent_id)
            if sweep is not None:
                sweep.logged(run, delivered)
        except Exception:  # the metrics are stored; loading the sweep again makes it consistent
            self.forget(run.parent_id)
            log.exception("What a child logged did not reach its sweep, which is loaded anew.", extra={"run": run.id})

    def _sweep_of(self, parent_id: RunId) -> LiveSweep | None:
        found = self.find(parent_id)
        if found is not None or parent_id in self._no_sweeps:
            return found
        try:
            parent = self._runs.get(parent_id)
        except NotFound:
            return None
        if is_sweep(parent):
            return None if parent.status.is_terminal else self.of(parent)
        if len(self._no_sweeps) >= _MOST_NO_SWEEPS:
            self._no_sweeps.clear()
        self._no_sweeps.add(parent_id)
        return None
