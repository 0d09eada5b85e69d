from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from starlette.responses import Response
from typing_extensions import TypedDict

from runyard.core.policy import Action
from runyard.core.records.runs import RunId, RunStatus
from runyard.core.records.sweeps import Goal, RankedTrial, TrialStop
from runyard.runs.kinds.sweep.chart import SweepChart
from runyard.runs.kinds.sweep.views import SweepSummary
from runyard.server.http.parameters import QueryCount, parse_status
from runyard.server.http.responses import Json
from runyard.server.http.routes import Routes
from runyard.server.services import CallerDep, ServicesDep

routes = Routes("/runs/{run_id}", tag="sweeps")


# TypedDicts, not dataclasses as elsewhere: a sweep has up to ten thousand trials.
class TrialWire(TypedDict):
    run_id: str
    number: int
    hyperparameters: str
    """JSON text."""
    best_primary_metric: float | None
    status: RunStatus
    intervals: int
    stop: TrialStop | None


class SeenTrialWire(TrialWire):
    why: str
    numbers: Sequence[float | None]


class PrimaryMetric(TypedDict):
    name: str
    goal: Goal


class TrialList(TypedDict):
    primary_metric: PrimaryMetric
    trials: Sequence[TrialWire]


class SweepWire(TypedDict):
    sweep: Any
    seed: int
    counts: Mapping[str, int]
    best: TrialWire | None
    ends_at: datetime | None
    logged: Mapping[str, int]


class SweepViewWire(SweepWire):
    trials: Sequence[SeenTrialWire]
    trial_count: int
    progress: SweepChart


@routes.get("/sweep", Action.READ_RUN, SweepWire)
def get_sweep(services: ServicesDep, who: CallerDep, run_id: str) -> Response:
    """Definition and progress of a sweep."""
    return Json(_summary(services.sweeps.summary(who, RunId(run_id))))


@routes.get("/sweep/view", Action.READ_RUN, SweepViewWire)
def get_view(
    services: ServicesDep, who: CallerDep, run_id: str, top: QueryCount = 20, lines: QueryCount = 0
) -> Response:
    """The same with its best trials, and the logged values of the first `lines` of them."""
    view = services.sweep_views.of(who, RunId(run_id), top=top, lines=lines)
    trials: list[SeenTrialWire] = [{**_trial(one.trial), "why": one.why, "numbers": one.numbers} for one in view.trials]
    shown: SweepViewWire = {
        **_summary(view.summary),
        "trials": trials,
        "trial_count": view.trial_count,
        "progress": view.progress,
    }
    return Json(shown)


@routes.get("/trials", Action.READ_RUN, TrialList)
def get_trials(
    services: ServicesDep,
    who: CallerDep,
    run_id: str,
    top: QueryCount = 0,
    reverse: bool = False,
    discard_no_metric: bool = False,
    resumed: bool = False,
    leave_out: str = "",
) -> Response:
    """The trials of a sweep, best first."""
    found = services.sweeps.ranking(
        who,
        RunId(run_id),
        top=top,
        worst_first=reverse,
        discard_no_metric=discard_no_metric,
        resumed=resumed,
        leave_out=[parse_status(word) for word in leave_out.split(",") if word],
    )
    shown: TrialList = {
        "primary_metric": {"name": found.metric, "goal": found.goal},
        "trials": [_trial(trial) for trial in found.trials],
    }
    return Json(shown)


def _summary(summary: SweepSummary) -> SweepWire:
    return {
        "sweep": summary.raw,
        "seed": summary.seed,
        "counts": summary.counts,
        "best": None if summary.best is None else _trial(summary.best),
        "ends_at": summary.ends_at,
        "logged": summary.logged,
    }


def _trial(trial: RankedTrial) -> TrialWire:
    run_id, number, values, status, best, intervals, stop = trial
    return {
        "run_id": run_id,
        "number": number,
        "hyperparameters": values,
        "best_primary_metric": best,
        "status": status,
        "intervals": intervals,
        "stop": stop,
    }
