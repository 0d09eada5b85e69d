"""A sweep as its rows tell of it: where it stood, and what a killed service has left undone."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runyard.core.definitions.sweep import SweepSpec
from runyard.errors import NotFound
from runyard.model.runs import RunId, RunRecord
from runyard.model.sweeps import RankedTrial, Stop, Trial, Values
from runyard.ports.stores import MetricStore, RunStore, TrialStore
from runyard.runs.kinds.sweep.hearing import Logged, lowest_logged, points_of
from runyard.runs.kinds.sweep.log import Source, SweepLogs, Told, ended_line, sampled_line, unjudged_text
from runyard.runs.kinds.sweep.standing import Standing
from runyard.runs.kinds.sweep.stopping import Stops, may_be_stopped
from runyard.tuning.known import Known
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


def earlier_trials(trials: TrialStore, spec: SweepSpec) -> Sequence[RankedTrial]:
    """Those of the sweeps it resumes from that have a score, in the order of `resume_from` and of their numbers."""
    if not spec.resume_from:
        return ()
    scored = [one for one in trials.ranked(spec.resume_from, spec.metric, spec.goal) if one.best is not None]
    places = {sweep_id: place for place, sweep_id in enumerate(spec.resume_from)}
    return sorted(scored, key=lambda one: (places[sweep_of(one.run_id)], one.number))


def known_of(earlier: Sequence[RankedTrial]) -> Sequence[Known]:
    return [Known(json.loads(one.values), one.best) for one in earlier]


def resumed_values(trials: TrialStore, child_ids: Sequence[RunId]) -> Sequence[Values]:
    """What each of these children of other sweeps was given. Raises NotFound where the trial of one is gone."""
    sweeps = {sweep_of(child_id) for child_id in child_ids}
    values = {trial.child_id: trial.values for sweep_id in sweeps for trial in trials.list(sweep_id)}
    for child_id in child_ids:
        if child_id not in values:
            raise NotFound(
                f"resume_child_runs names {child_id!r}, whose values are not stored any more.",
                hint="Leave it out: it, or its sweep, was deleted.",
            )
    return [values[child_id] for child_id in child_ids]


def logged_numbers(metrics: MetricStore, metric: str, ranked: Sequence[RankedTrial]) -> Mapping[RunId, Logged]:
    """What counts of what these have logged; nothing of those of which nothing counts. See `Hearing`."""
    of_first = metrics.series_of([one.run_id for one in ranked], metric, rank=0)
    found = {run_id: Logged(0, points) for run_id, several in of_first.items() if (points := points_of(several))}
    for one in ranked:
        if one.run_id not in found and one.status.is_terminal:
            found[one.run_id] = lowest_logged(metrics, one.run_id, metric, list(metrics.offsets(one.run_id)))
    return found


def sweep_of(child_id: RunId) -> RunId:
    return RunId(child_id.rpartition("_")[0])
