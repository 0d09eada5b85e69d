"""Loads the state of a sweep from the stores, and adds log lines that a killed service had not written."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runyard.core.errors import NotFound
from runyard.core.ports.stores import MetricStore, RunStore, TrialStore
from runyard.core.records.runs import RunId, RunRecord
from runyard.core.records.sweeps import RankedTrial, SweepSpec, Trial, TrialStop, Values
from runyard.runs.kinds.sweep.cancellation import TrialStopper, may_be_stopped
from runyard.runs.kinds.sweep.early_stopping.histories import TrialKey
from runyard.runs.kinds.sweep.early_stopping.policies import Policy
from runyard.runs.kinds.sweep.log import LoggedLine, LogSource, SweepLogs, ended_line, sampled_line, unjudged_text
from runyard.runs.kinds.sweep.metric_listener import LoggedNumbers, lowest_logged, points_of
from runyard.runs.kinds.sweep.sampling.observations import KnownTrial
from runyard.runs.kinds.sweep.spec import ignored_policy
from runyard.runs.kinds.sweep.state import SweepState


@dataclass(frozen=True)
class SweepStores:
    """Stores that live sweeps use."""

    runs: RunStore
    metrics: MetricStore
    trials: TrialStore
    logs: SweepLogs
    stops: TrialStopper


@dataclass(frozen=True)
class LoadedSweep:
    state: SweepState
    due: Mapping[int, TrialStop]
    """Stops that the policy decides for running trials, each at the last interval it was due."""


def load_sweep(sweep_id: RunId, spec: SweepSpec, stores: SweepStores, policy: Policy) -> LoadedSweep:
    """Load the state of a sweep. Writes nothing. Ended trials keep their scores."""
    earlier = earlier_trials(stores.trials, spec)
    state = SweepState(spec, stores.metrics, known_of(earlier))
    ranked = {one.number: one for one in stores.trials.ranked([sweep_id], spec.metric, spec.goal)}
    for trial in stores.trials.list(sweep_id):
        state.take(trial)
    logged = _logged(stores.metrics, spec.metric, earlier, list(ranked.values()))
    judged = [number for number, one in ranked.items() if one.stop is None and may_be_stopped(one.status)]
    due = state.replay({key: one.points for key, one in logged.items()}, policy, judged)
    for number in ranked:
        state.listener.begin(number, logged[number].rank if number in logged else None)
    for number, one in ranked.items():
        if one.status.is_terminal:
            state.end(number)
    return LoadedSweep(state, due)


def log_missing_lines(sweep_id: RunId, spec: SweepSpec, state: SweepState, stores: SweepStores) -> None:
    """Write the log lines that a killed service had not written."""
    if not state.trials:
        return
    logged_lines = stores.logs.logged_lines(sweep_id)
    trials = state.trials.values()
    unsampled = [one for one in trials if LoggedLine(LogSource.GENERATOR, one.child_id, "sampled") not in logged_lines]
    ended = [one for one in trials if state.has_ended(one.number)]
    unended = [one for one in ended if LoggedLine(LogSource.CONTROLLER, one.child_id, "ended") not in logged_lines]
    stores.logs.write(sweep_id, LogSource.GENERATOR, *map(sampled_line, unsampled))
    stores.logs.write(sweep_id, LogSource.CONTROLLER, *(_ended_line(one, spec, state, stores) for one in unended))


def record_trial_end(child: RunRecord, trial: Trial, spec: SweepSpec, state: SweepState, stores: SweepStores) -> str:
    """Add warnings to an ended child; return the log line of its end. Safe to repeat."""
    stores.stops.note_end(trial, child)
    rank, has_policy = state.rank(trial.number), spec.policy != "Default" and not ignored_policy(spec)
    if rank and has_policy and (unjudged := unjudged_text(spec.metric, rank)) not in child.warnings:
        stores.runs.update(child.id, warnings=(unjudged,))
    return ended_line(child, trial, state)


def _ended_line(trial: Trial, spec: SweepSpec, state: SweepState, stores: SweepStores) -> str:
    try:
        child = stores.runs.get(trial.child_id)
    except NotFound:
        return f"{trial.child_id} ended: it was deleted."
    return record_trial_end(child, trial, spec, state, stores)


def _logged(
    metrics: MetricStore, metric: str, earlier: Sequence[RankedTrial], own: Sequence[RankedTrial]
) -> dict[TrialKey, LoggedNumbers]:
    having_any = [one for one in own if one.intervals]
    keys: dict[RunId, TrialKey] = {one.run_id: one.run_id for one in earlier}
    keys |= {one.run_id: one.number for one in having_any}
    found = logged_numbers(metrics, metric, [*earlier, *having_any])
    return {keys[run_id]: logged for run_id, logged in found.items()}


def earlier_trials(trials: TrialStore, spec: SweepSpec) -> Sequence[RankedTrial]:
    """Trials with a score of the sweeps to resume from, in the order of `resume_from` and of their numbers."""
    if not spec.resume_from:
        return ()
    scored = [one for one in trials.ranked(spec.resume_from, spec.metric, spec.goal) if one.best is not None]
    order = {sweep_id: index for index, sweep_id in enumerate(spec.resume_from)}
    return sorted(scored, key=lambda one: (order[sweep_of(one.run_id)], one.number))


def known_of(earlier: Sequence[RankedTrial]) -> Sequence[KnownTrial]:
    return [KnownTrial(json.loads(one.values), one.best) for one in earlier]


def resumed_values(trials: TrialStore, child_ids: Sequence[RunId]) -> Sequence[Values]:
    """Values of these children of other sweeps. Raises NotFound if a trial is gone."""
    sweeps = {sweep_of(child_id) for child_id in child_ids}
    values = {trial.child_id: trial.values for sweep_id in sweeps for trial in trials.list(sweep_id)}
    for child_id in child_ids:
        if child_id not in values:
            raise NotFound(
                f"resume_child_runs names {child_id!r}, whose values are not stored any more.",
                hint="Leave it out: it, or its sweep, was deleted.",
            )
    return [values[child_id] for child_id in child_ids]


def logged_numbers(metrics: MetricStore, metric: str, ranked: Sequence[RankedTrial]) -> Mapping[RunId, LoggedNumbers]:
    """Numbers that count for these trials, without those that have none. See `MetricListener`."""
    of_first = metrics.series_of([one.run_id for one in ranked], metric, rank=0)
    found = {run_id: LoggedNumbers(0, points) for run_id, several in of_first.items() if (points := points_of(several))}
    for one in ranked:
        if one.run_id not in found and one.status.is_terminal:
            found[one.run_id] = lowest_logged(metrics, one.run_id, metric, list(metrics.offsets(one.run_id)))
    return found


def sweep_of(child_id: RunId) -> RunId:
    return RunId(child_id.rpartition("_")[0])
