from fastapi import APIRouter, Depends
from starlette.responses import Response

from runyard.http.answers import Json
from runyard.http.auth import run_access
from runyard.http.context import Use
from runyard.http.numbers import Counting
from runyard.http.statuses import status_of
from runyard.http.sweep_records import shown_summary, shown_trials, shown_view
from runyard.model.runs import RunId

router = APIRouter(prefix="/runs/{run_id}", dependencies=[Depends(run_access)])


@router.get("/sweep")
def get_sweep(services: Use, run_id: str) -> Response:
    return Json(shown_summary(services.sweeps.summary(RunId(run_id))))


@router.get("/sweep/view")
def get_view(services: Use, run_id: str, top: Counting = 20, lines: Counting = 0) -> Response:
    return Json(shown_view(services.sweep_views.of(RunId(run_id), top=top, lines=lines)))


@router.get("/trials")
def get_trials(
    services: Use,
    run_id: str,
    top: Counting = 0,
    reverse: bool = False,
    discard_no_metric: bool = False,
    resumed: bool = False,
    leave_out: str = "",
) -> Response:
    found = services.sweeps.ranking(
        RunId(run_id),
        top=top,
        worst_first=reverse,
        discard_no_metric=discard_no_metric,
        resumed=resumed,
        leave_out=[status_of(word) for word in leave_out.split(",") if word],
    )
    return Json(shown_trials(found.metric, found.goal, found.trials))
