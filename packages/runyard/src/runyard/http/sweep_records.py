"""Sweeps and trials as the wire shows them."""

from collections.abc import Sequence
from typing import Any

from runyard.model.sweeps import Goal, RankedTrial
from runyard.services.sweeps.listing import SweepSummary
from runyard.services.sweeps.view import SweepView


def shown_summary(summary: SweepSummary) -> dict[str, Any]:
    return {
        "sweep": summary.raw,
        "seed": summary.seed,
        "counts": summary.counts,
        "best": None if summary.best is None else shown_trial(summary.best),
        "ends_at": summary.ends_at,
        "logged": summary.logged,
    }


def shown_trials(metric: str, goal: Goal, trials: Sequence[RankedTrial]) -> dict[str, Any]:
    return {"primary_metric": {"name": metric, "goal": goal}, "trials": [shown_trial(trial) for trial in trials]}


def shown_trial(trial: RankedTrial) -> dict[str, Any]:
    run_id, number, values, status, best, intervals, stop = trial
    return {
        "run_id": run_id,
        "number": number,
        "hyperparameters": values,
        "best_primary_metric": best,
        "status": status.value,
        "intervals": intervals,
        "stop": stop,
    }


def shown_view(view: SweepView) -> dict[str, Any]:
    trials = [{**shown_trial(one.trial), "why": one.why, "numbers": one.numbers} for one in view.trials]
    counted = {"trials": trials, "trial_count": view.trial_count}
    return {**shown_summary(view.summary), **counted, "progress": view.progress}
