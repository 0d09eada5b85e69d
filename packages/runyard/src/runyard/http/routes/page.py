from urllib.parse import quote

from fastapi import APIRouter, Depends, Request
from starlette.responses import HTMLResponse, Response

from runyard.errors import Unauthorized
from runyard.http.answers import file_answer
from runyard.http.context import Services, Use
from runyard.http.page.render import headers, render
from runyard.http.paths import PATH
from runyard.model.runs import RunId
from runyard.model.sweeps import SWEEP_TYPE

CHILDREN_SHOWN = 100
LINES_DRAWN = 10


async def page_access(request: Request) -> None:
    services: Services = request.app.state.services
    key = request.query_params.get("key", "")
    last_day = services.tokens.page_opens_until(RunId(request.path_params["run_id"]), key)
    if last_day is None:
        raise Unauthorized(
            "The key of this page is missing, wrong or over.", hint="`runyard runs show` prints a link that opens it."
        )
    request.state.last_day = last_day


router = APIRouter(prefix="/runs/{run_id}", dependencies=[Depends(page_access)])


@router.get("")
def run_page(services: Use, request: Request, run_id: str, key: str = "") -> Response:
    def link_to(other: RunId) -> str:
        """Good for as long as the link that led here."""
        return f"/runs/{quote(other, safe='')}?key={services.tokens.page_key(other, request.state.last_day)}"

    overview = services.overviews.get(RunId(run_id))
    is_sweep = overview.run.type == SWEEP_TYPE
    sweep = services.sweep_views.of(overview.run.id, top=CHILDREN_SHOWN, lines=LINES_DRAWN) if is_sweep else None
    text = render(overview, key, sweep, link_to)
    # A metric or a path may hold what is no text.
    return HTMLResponse(text.encode("utf-8", "backslashreplace"), headers=headers())


@router.get(f"/files/{PATH}")
def run_page_file(services: Use, run_id: str, path: str) -> Response:
    return file_answer(services.files.open(RunId(run_id), path), path, headers={"Referrer-Policy": "no-referrer"})
