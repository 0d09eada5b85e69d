"""A sweep as its rows tell of it: where it stood, and what a killed service has left undone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runyard.errors import NotFound
from runyard.model.runs import RunId, RunRecord
from runyard.model.sweeps import RankedTrial, Stop, SweepSpec, Trial
from runyard.ports.stores import MetricStore, RunStore, TrialStore
from runyard.services.sweeps.hearing import Logged
from runyard.services.sweeps.known import earlier_trials, known_of, logged_numbers
from runyard.services.sweeps.standing import Standing
from runyard.services.sweeps.stops import Stops, may_be_stopped
from runyard.services.sweeps.sweep_lines import ended_line, sampled_line, unjudged_text
from runyard.services.sweeps.sweep_log import Source, SweepLogs, Told
from runyard.tuning.spec import ignored_policy
from runyard.tuning.stopping.histories import TrialKey
from runyard.tuning.stopping.policies import Policy


@dataclass(frozen=True)
class SweepStores:
    """What live sweeps read and write."""

    runs: RunStore
    metrics: MetricStore
    trials: TrialStore
    logs: SweepLogs
    stops: Stops


@dataclass(frozen=True)
class Loaded:
    standing: Standing
    due: Mapping[int, Stop]
    """What the policy says of trials that go on, each at the last interval it was due."""


def load(sweep_id: RunId, spec: SweepSpec, stores: SweepStores, policy: Policy) -> Loaded:
    """Reads alone. Trials that have ended keep the scores they have."""
    earlier = earlier_trials(stores.trials, spec)
    standing = Standing(spec, stores.metrics, known_of(earlier))
    ranked = {one.number: one for one in stores.trials.ranked([sweep_id], spec.metric, spec.goal)}
    for trial in stores.trials.list(sweep_id):
        standing.take(trial)
    logged = _logged(stores.metrics, spec.metric, earlier, list(ranked.values()))
    judged = [number for number, one in ranked.items() if one.stop is None and may_be_stopped(one.status)]
    due = standing.replay({key: one.points for key, one in logged.items()}, policy, judged)
    for number in ranked:
        standing.hearing.begin(number, logged[number].rank if number in logged else None)
    for number, one in ranked.items():
        if one.status.is_terminal:
            standing.end(number)
    return Loaded(standing, due)


def say_the_rest(sweep_id: RunId, spec: SweepSpec, standing: Standing, stores: SweepStores) -> None:
    """The lines that a service was killed before."""
    if not standing.trials:
        return
    told = stores.logs.told(sweep_id)
    trials = standing.trials.values()
    unsampled = [one for one in trials if Told(Source.GENERATOR, one.child_id, "sampled") not in told]
    ended = [one for one in trials if standing.has_ended(one.number)]
    unended = [one for one in ended if Told(Source.CONTROLLER, one.child_id, "ended") not in told]
    stores.logs.write(sweep_id, Source.GENERATOR, *map(sampled_line, unsampled))
    stores.logs.write(sweep_id, Source.CONTROLLER, *(_ended(one, spec, standing, stores) for one in unended))


def note_end(child: RunRecord, trial: Trial, spec: SweepSpec, standing: Standing, stores: SweepStores) -> str:
    """The line of its end, after what is to be said on the child itself. Safe to repeat."""
    stores.stops.note_end(trial, child)
    rank, has_policy = standing.rank(trial.number), spec.policy != "Default" and not ignored_policy(spec)
    if rank and has_policy and (unjudged := unjudged_text(spec.metric, rank)) not in child.warnings:
        stores.runs.update(child.id, warnings=(unjudged,))
    return ended_line(child, trial, standing)


def _ended(trial: Trial, spec: SweepSpec, standing: Standing, stores: SweepStores) -> str:
    try:
        child = stores.runs.get(trial.child_id)
    except NotFound:
        return f"{trial.child_id} ended: it was deleted."
    return note_end(child, trial, spec, standing, stores)


def _logged(
    metrics: MetricStore, metric: str, earlier: Sequence[RankedTrial], own: Sequence[RankedTrial]
) -> dict[TrialKey, Logged]:
    having_any = [one for one in own if one.intervals]
    keys: dict[RunId, TrialKey] = {one.run_id: one.run_id for one in earlier}
    keys |= {one.run_id: one.number for one in having_any}
    found = logged_numbers(metrics, metric, [*earlier, *having_any])
    return {keys[run_id]: logged for run_id, logged in found.items()}
