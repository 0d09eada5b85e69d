from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from runyard.core.ports.stores import MetricStore
from runyard.core.records.runs import RunId
from runyard.core.records.sweeps import Goal, SweepSpec, Trial, TrialStop
from runyard.runs.kinds.sweep.early_stopping.histories import Histories, TrialKey
from runyard.runs.kinds.sweep.early_stopping.policies import Policy
from runyard.runs.kinds.sweep.metric_listener import LoggedPoint, MetricListener
from runyard.runs.kinds.sweep.sampling.observations import KnownTrial


@dataclass(frozen=True)
class BestTrial:
    run_id: RunId
    value: float


class SweepState:
    """State of a sweep: its trials, the numbers they logged, which have ended, which is the best.

    A cache of what is stored. Not thread-safe.
    """

    def __init__(self, spec: SweepSpec, metrics: MetricStore, earlier: Sequence[KnownTrial] = ()) -> None:
        self._goal, self._earlier = spec.goal, tuple(earlier)
        self.histories = Histories(spec.goal)
        self.listener = MetricListener(spec.metric, self.histories, metrics)
        self.trials: dict[int, Trial] = {}
        self._known: dict[int, KnownTrial] = {}
        self.best: BestTrial | None = None

    @property
    def next_number(self) -> int:
        return next(reversed(self.trials), -1) + 1

    @property
    def known(self) -> Sequence[KnownTrial]:
        return [*self._earlier, *self._known.values()]

    def take(self, trial: Trial) -> None:
        """Add a trial that has not ended."""
        self.trials[trial.number] = trial
        self._known[trial.number] = KnownTrial(trial.values, is_pending=True)

    def end(self, number: int) -> None:
        """Note the end of a trial; its score is its best number so far."""
        self._known[number] = KnownTrial(self.trials[number].values, self.score(number))
        self.listener.end(number)

    def add_rest(self, number: int) -> None:
        """Add the numbers of an ended trial that count only from its end on."""
        for value in self.listener.rest(number, self.trials[number].child_id):
            self.histories.append(number, value)

    def has_ended(self, number: int) -> bool:
        return not self._known[number].is_pending

    def score(self, key: TrialKey) -> float | None:
        history = self.histories.get(key)
        return history.best if history else None

    def intervals(self, key: TrialKey) -> int:
        history = self.histories.get(key)
        return len(history) if history else 0

    def rank(self, number: int) -> int | None:
        """Rank whose numbers count for the trial; None if there are none."""
        return self.listener.rank(number)

    def renew_best(self, number: int) -> bool:
        """Update the best after this trial has logged; return whether it has changed."""
        before, score, child_id = self.best, self.score(number), self.trials[number].child_id
        if score is not None and self._is_best(score):
            self.best = BestTrial(child_id, score)
        elif before is not None and before.run_id == child_id and score != before.value:
            self._find_best()  # a lower rank has replaced its numbers
        return self.best != before

    def replay(
        self, logged: Mapping[TrialKey, Sequence[LoggedPoint]], policy: Policy, judged: Iterable[int]
    ) -> dict[int, TrialStop]:
        """Add logged numbers in order of time; judge each trial in `judged` at the last interval it was due.

        That interval may have been stored and never judged. It is compared only with what was logged before it, so the
        decision is the one that was due then, and judging twice is harmless.
        """
        last = {number: policy.last_due(len(logged[number])) for number in judged if number in logged}
        ordered = sorted((at, place, key, value) for place, (at, key, value) in enumerate(_all(logged)))
        stops: dict[int, TrialStop] = {}
        for _, _, key, value in ordered:
            interval = self.histories.append(key, value)
            if isinstance(key, int) and last.get(key) == interval:
                stop = policy.judge(key, self.histories)
                if stop is not None:
                    stops[key] = stop
        self._find_best()
        return stops

    def _find_best(self) -> None:
        self.best = None
        for number, trial in self.trials.items():
            score = self.score(number)
            if score is not None and self._is_best(score):
                self.best = BestTrial(trial.child_id, score)

    def _is_best(self, score: float) -> bool:
        if self.best is None:
            return True
        return score > self.best.value if self._goal is Goal.MAXIMIZE else score < self.best.value


def _all(logged: Mapping[TrialKey, Sequence[LoggedPoint]]) -> Iterable[tuple[float, TrialKey, float]]:
    return ((point.at, key, point.value) for key, points in logged.items() for point in points)
