from urllib.parse import quote

from fastapi import Depends, Request
from starlette.responses import HTMLResponse, Response

from runyard.access.tokens import PAGE_READER
from runyard.core.errors import Unauthorized
from runyard.core.policy import Action
from runyard.core.records.runs import RunId
from runyard.server.http.parameters import PATH
from runyard.server.http.responses import file_response
from runyard.server.http.routes import OCTETS, Media, Routes
from runyard.server.page.run_page import page_headers, render_run_page
from runyard.server.services import Services, ServicesDep

CHILDREN_SHOWN = 100
PLOTTED_CHILDREN = 10


async def page_access(request: Request) -> None:
    """Dependency: raise Unauthorized unless the query has a valid key for this run's page."""
    services: Services = request.app.state.services
    key = request.query_params.get("key", "")
    last_day = services.tokens.page_opens_until(RunId(request.path_params["run_id"]), key)
    if last_day is None:
        raise Unauthorized(
            "The key of this page is missing, wrong or over.", hint="`runyard runs show` prints a link that opens it."
        )
    request.state.last_day = last_day


routes = Routes("/runs/{run_id}", dependencies=[Depends(page_access)], tag="page")
PAGE = Media("text/html", "A page for people.")


@routes.get("", Action.READ_RUN, PAGE, is_open=True)
def run_page(services: ServicesDep, request: Request, run_id: str, key: str = "") -> Response:
    """The HTML page of a run. The key in its address gives access to this page only."""

    def link_to(other: RunId) -> str:
        """Address with a key that expires with the one of this page."""
        return f"/runs/{quote(other, safe='')}?key={services.tokens.page_key(other, request.state.last_day)}"

    overview = services.overviews.get(PAGE_READER, RunId(run_id))
    sweep = services.sweep_views.find(PAGE_READER, overview.run, top=CHILDREN_SHOWN, lines=PLOTTED_CHILDREN)
    text = render_run_page(overview, key, sweep, link_to)
    # Metric names and paths may hold invalid UTF-8.
    return HTMLResponse(text.encode("utf-8", "backslashreplace"), headers=page_headers())


@routes.get(f"/files/{PATH}", Action.SEE_DELIVERED, OCTETS, is_open=True)
def run_page_file(services: ServicesDep, run_id: str, path: str, key: str = "") -> Response:
    """A file of the run, with the key of its page."""
    return file_response(
        services.files.open(PAGE_READER, RunId(run_id), path), path, headers={"Referrer-Policy": "no-referrer"}
    )
