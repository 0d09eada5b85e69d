import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from runyard.model.runs import RunId, RunRecord, RunStatus
from runyard.model.sweeps import Stop, Trial
from runyard.runs.history.journals import Delivered
from runyard.runs.kinds.sweep.checks import spec_of
from runyard.runs.kinds.sweep.children import Children
from runyard.runs.kinds.sweep.hearing import no_number_in
from runyard.runs.kinds.sweep.loading import SweepStores, load, note_end, resumed_values, say_the_rest
from runyard.runs.kinds.sweep.log import Source, best_line, no_number_text, sampled_line, scheduled_line
from runyard.runs.kinds.sweep.standing import BestSoFar
from runyard.runs.kinds.sweep.stopping import may_be_stopped
from runyard.tuning.known import Known
from runyard.tuning.samplers import most_trials, sampler_of, seed_of
from runyard.tuning.spec import ignored_policy
from runyard.tuning.stopping.policies import doubt_of, policy_of

_SAMPLING = -2
"""The turn of sampling; that of a trial is its number."""
_TAKEN_AT_ONCE = 1_000
_PAUSE_SECONDS = 0.001


class LiveSweep:
    """All that is known of a sweep that goes on, and the one object that changes it.

    It samples trials, takes in what their runs log, stops those that its policy gives up, and knows which children
    are made, go on and have ended. All of it is stored first, so a killed service loses none of it.

    Locking. A sweep has one lock, `_lock`:
    - What trials have logged (`_standing`, `_due`, what was said) is read and changed by any thread that holds it.
    - Work that holds the lock several times takes a turn first (`_turn`), so that deliveries of one trial, its end,
      and samplings each follow one another while others get the lock in between. Nobody waits for a turn while
      holding the lock or another turn.
    - A decision to stop is stored under the lock. Sampling, and canceling runs, happen without it: they may take long.
    - `children` belongs to the controller's thread and needs no lock; other threads only add to its `ended`.
    """

    def __init__(self, sweep: RunRecord, stores: SweepStores) -> None:
        """Reads what is stored of it. Raises InvalidArgument where the run's definition asks for no sweep."""
        self.run_id: RunId = sweep.id
        self.spec = spec_of(sweep)
        self.children: Children | None = None
        self._stores = stores
        self._policy = policy_of(self.spec)
        self._sampler = sampler_of(self.spec, seed_of(self.spec, sweep.id))
        self._lock = threading.Condition(threading.Lock())
        self._turns: set[int] = set()
        self._is_judging = sweep.status is not RunStatus.CANCEL_REQUESTED
        self._said_no_number: set[int] = set()
        self._has_said_doubt = False
        loaded = load(sweep.id, self.spec, stores, self._policy)
        self._standing, self._due = loaded.standing, loaded.due

    @property
    def trials(self) -> Sequence[Trial]:
        """By number."""
        with self._lock:
            return list(self._standing.trials.values())

    @property
    def best(self) -> BestSoFar | None:
        """Of its own trials."""
        with self._lock:
            return self._standing.best

    def known(self) -> Sequence[Known]:
        """What the sampler may learn from: the trials of sweeps it resumed from, then its own."""
        with self._lock:
            return self._standing.known

    def sample(self, count: int) -> Sequence[Trial]:
        """The next trials, stored together; fewer where less is left to try.

        The first time these are, before all others, those of `resume_child_runs`: all of them, also where that is
        more than `count`, since whoever they come from may be gone later. Raises NotFound where one is gone already.
        """
        with self._turn(_SAMPLING):
            sampled = self._resumed()
            while len(sampled) < count and (trial := self._next_trial(sampled)) is not None:
                sampled.append(trial)
            self._stores.trials.add(sampled)
            with self._lock:
                for trial in sampled:
                    self._standing.take(trial)
            self._stores.logs.write(self.run_id, Source.GENERATOR, *map(sampled_line, sampled))
        return sampled

    def next_trials(self, children: Children, count: int) -> Sequence[Trial]:
        """Those that are to be tried next, stored; fewer than asked for, or none, where no more are left."""
        missing = count - len(children.unmade)
        if missing > 0 and not children.is_exhausted:
            sampled = self.sample(missing)
            children.unmade.extend(sampled)
            children.is_exhausted = len(sampled) < missing
        return list(children.unmade)[:count]

    def bar(self, children: Children, why: str) -> None:
        """Have no further child made."""
        children.barred = why
        self.say(Source.CONTROLLER, f"No further children are made. {why}")

    def left_out(self, children: Children) -> int:
        """How many trials would have no run if it ended now."""
        with self._lock:
            return max(0, most_trials(self.spec) - len(self._standing.trials) + len(children.unmade))

    def note_scheduled(self, *trials: Trial) -> None:
        self._stores.logs.write(self.run_id, Source.SCHEDULER, *map(scheduled_line, trials))

    def note_ended(self, child: RunRecord) -> None:
        """A child has ended: the sampler may learn of it. Quiet when that was noted, and of runs that are no trial."""
        number, standing = trial_number(child), self._standing
        with self._turn(number), self._lock:
            if number not in standing.trials or standing.has_ended(number):
                return
            trial = standing.trials[number]
            standing.hear_rest(number)
            standing.end(number)
            self._renew_best(number)
            line = note_end(child, trial, self.spec, standing, self._stores)
        self.say(Source.CONTROLLER, line)

    def stop_judging(self) -> None:
        """The sweep itself is coming to its end: no policy decides anything any more."""
        with self._lock:
            self._is_judging = False

    def say(self, source: Source, *texts: str) -> None:
        """Lines of hyperdrive.txt."""
        self._stores.logs.write(self.run_id, source, *texts)

    def logged(self, child: RunRecord, delivered: Delivered) -> None:
        """What a child has logged: judge it at once, and have it stopped where the policy says so."""
        number = trial_number(child)
        with self._turn(number):
            stopped = self._take_in(number, child, delivered)
        self._say_no_number(number, child, delivered)
        if stopped is not None:
            self._stores.stops.carry_out(stopped)
            self._say_doubt(stopped)

    def mend(self, sweep: RunRecord) -> None:
        """Do what a killed service has decided and not done, or stored and not said."""
        ignored = ignored_policy(self.spec)
        if ignored is not None:
            self._warn(ignored, sweep)
        say_the_rest(self.run_id, self.spec, self._standing, self._stores)
        with self._lock:
            for number, stop in self._due.items() if self._is_judging else ():
                self._stop(number, stop)
            self._due = {}
            undone = [one for number, one in self._standing.trials.items() if not self._standing.has_ended(number)]
        for trial in undone:
            self._stores.stops.carry_out(trial)
        for trial in self.trials:
            self._say_doubt(trial)

    @contextmanager
    def _turn(self, key: int) -> Iterator[None]:
        """Wait until no other thread has the turn of that trial, or of sampling, and take it."""
        with self._lock:
            while key in self._turns:
                self._lock.wait()
            self._turns.add(key)
        try:
            yield
        finally:
            with self._lock:
                self._turns.discard(key)
                self._lock.notify_all()

    def _resumed(self) -> list[Trial]:
        """Those that it has yet to take from other sweeps."""
        with self._lock:
            first = self._standing.next_number
        earlier = self.spec.resume_child_runs[first:]
        values = resumed_values(self._stores.trials, earlier)
        pairs = enumerate(zip(earlier, values, strict=True), first)
        return [Trial(self.run_id, number, given, resumed_from=whence) for number, (whence, given) in pairs]

    def _next_trial(self, sampled: Sequence[Trial]) -> Trial | None:
        with self._lock:
            number = self._standing.next_number + len(sampled)
            known = self._standing.known
        if number >= most_trials(self.spec):
            return None
        pending = [Known(trial.values, is_pending=True) for trial in sampled]
        values = self._sampler.sample(number, [*known, *pending])
        return None if values is None else Trial(self.run_id, number, values)

    def _take_in(self, number: int, child: RunRecord, delivered: Delivered) -> Trial | None:
        """The trial with its stop, where one of the numbers is its last. Of many, others are judged in between."""
        stopped: Trial | None = None
        with self._lock:
            if number not in self._standing.trials:
                return None
            fresh = self._standing.hearing.fresh(number, child.id, delivered)
        for start in range(0, len(fresh), _TAKEN_AT_ONCE):
            if start:
                time.sleep(_PAUSE_SECONDS)  # who takes a lock again at once keeps it from all who wait for it
            with self._lock:
                stopped = self._judged(number, child, fresh[start : start + _TAKEN_AT_ONCE]) or stopped
        with self._lock:
            self._renew_best(number)
        return stopped

    def _judged(self, number: int, child: RunRecord, fresh: Sequence[float]) -> Trial | None:
        """Take the numbers in, one after another."""
        standing, stop = self._standing, None
        is_judged = self._is_judging and standing.trials[number].stop is None and may_be_stopped(child.status)
        for value in fresh:
            standing.histories.append(number, value)
            if is_judged and stop is None:
                stop = self._policy.judge(number, standing.histories)
        return None if stop is None else self._stop(number, stop)

    def _renew_best(self, number: int) -> None:
        if self._standing.renew_best(number) and self._standing.best is not None:
            self.say(Source.CONTROLLER, best_line(self._standing.best, self.spec.metric))

    def _stop(self, number: int, stop: Stop) -> Trial | None:
        """Keep the decision; None where it comes too late, or was made before."""
        trial = replace(self._standing.trials[number], stop=stop)
        if not self._stores.stops.goes_on(trial.child_id):
            return None
        self._standing.trials[number] = trial
        return trial if self._stores.trials.stop(self.run_id, number, stop) else None

    def _say_doubt(self, trial: Trial) -> None:
        doubt = None if trial.stop is None else doubt_of(self.spec, trial.stop)
        if doubt is None:
            return
        with self._lock:
            is_first, self._has_said_doubt = not self._has_said_doubt, True
        if is_first:
            self._warn(doubt, self._stores.runs.get(self.run_id))

    def _warn(self, text: str, sweep: RunRecord) -> None:
        if text not in sweep.warnings:
            self.say(Source.CONTROLLER, text)
            self._stores.runs.update(self.run_id, warnings=(text,))

    def _say_no_number(self, number: int, child: RunRecord, delivered: Delivered) -> None:
        shown = no_number_in(self.spec.metric, delivered.batches)
        if shown is None:
            return
        with self._lock:
            is_first = number not in self._said_no_number
            self._said_no_number.add(number)
        if is_first and not any(one.startswith(no_number_text(self.spec.metric)) for one in child.warnings):
            text = no_number_text(self.spec.metric, shown)
            self.say(Source.CONTROLLER, f"{child.id} logs no number: {text}")
            self._stores.runs.update(child.id, warnings=(text,))


def trial_number(child: RunRecord) -> int:
    """Which trial of its parent it is; -1 for a run that is none, whatever it is called."""
    digits = child.id.removeprefix(f"{child.parent_id}_")
    is_number = digits.isascii() and digits.isdecimal() and digits != child.id
    return int(digits) if is_number and str(int(digits)) == digits else -1
