"""What is stored of a sweep and of those it resumes from, as its trials and their numbers."""

import json
from collections.abc import Mapping, Sequence

from runyard.errors import NotFound
from runyard.model.runs import RunId
from runyard.model.sweeps import RankedTrial, SweepSpec, Values
from runyard.ports.stores import MetricStore, TrialStore
from runyard.services.sweeps.hearing import Logged, lowest_logged, points_of
from runyard.tuning.known import Known


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
