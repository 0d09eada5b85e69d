import threading
import time
from collections.abc import Sequence
from dataclasses import replace

from runyard.model.runs import RunId, RunRecord, RunStatus
from runyard.model.sweeps import Stop, Trial
from runyard.services.journals import Delivered
from runyard.services.sweeps.asked import spec_of
from runyard.services.sweeps.hearing import no_number_in
from runyard.services.sweeps.known import resumed_values
from runyard.services.sweeps.loading import SweepStores, load, note_end, say_the_rest
from runyard.services.sweeps.standing import BestSoFar
from runyard.services.sweeps.stops import may_be_stopped
from runyard.services.sweeps.sweep_lines import best_line, no_number_text, sampled_line, scheduled_line
from runyard.services.sweeps.sweep_log import Source
from runyard.tuning.known import Known
from runyard.tuning.samplers import most_trials, sampler_of, seed_of
from runyard.tuning.spec import ignored_policy
from runyard.tuning.stopping.policies import doubt_of, policy_of

_TURNS = 16
_TAKEN_AT_ONCE = 1_000
_PAUSE_SECONDS = 0.001


class LiveSweep:
    """A sweep that goes on: samples its trials, hears what they log, and stops those that its policy gives up.

    Safe to share between threads. All that it knows is stored first, so a killed service loses none of it.
    """

    def __init__(self, sweep: RunRecord, stores: SweepStores) -> None:
        """Reads what is stored of it. Raises InvalidArgument where the run's definition asks for no sweep."""
        self.run_id: RunId = sweep.id
        self.spec = spec_of(sweep)
        self._stores = stores
        self._policy = policy_of(self.spec)
        self._sampler = sampler_of(self.spec, seed_of(self.spec, sweep.id))
        self._lock = threading.Lock()
        # One delivery of a trial is taken in after another; held before, and longer than, the lock.
        self._in_turn = [threading.Lock() for _ in range(_TURNS)]
        # Apart from the other, since a sampler may take long and no judgement shall wait for it.
        self._sampling = threading.Lock()
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
        with self._sampling:
            sampled = self._resumed()
            while len(sampled) < count and (trial := self._next_trial(sampled)) is not None:
                sampled.append(trial)
            self._stores.trials.add(sampled)
            with self._lock:
                for trial in sampled:
                    self._standing.take(trial)
            self._stores.logs.write(self.run_id, Source.GENERATOR, *map(sampled_line, sampled))
        return sampled

    def note_scheduled(self, *trials: Trial) -> None:
        self._stores.logs.write(self.run_id, Source.SCHEDULER, *map(scheduled_line, trials))

    def note_ended(self, child: RunRecord) -> None:
        """A child has ended: the sampler may learn of it. Quiet when that was noted, and of runs that are no trial."""
        number, standing = trial_number(child), self._standing
        with self._in_turn[number % _TURNS], self._lock:
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
        self._is_judging = False

    def say(self, source: Source, *texts: str) -> None:
        """Lines of hyperdrive.txt."""
        self._stores.logs.write(self.run_id, source, *texts)

    def heard(self, child: RunRecord, delivered: Delivered) -> None:
        """What a child has logged: judge it at once, and have it stopped where the policy says so."""
        number = trial_number(child)
        with self._in_turn[number % _TURNS]:
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
