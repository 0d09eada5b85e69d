"""Health and figures, for probes and Prometheus: at the root, where such programs look."""

from dataclasses import dataclass

from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from runyard.core.policy import Action
from runyard.errors import Unauthorized
from runyard.http.answers import Json
from runyard.http.auth import bearer_token
from runyard.http.context import Use
from runyard.http.routing import Media, Routes

routes = Routes()
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True)
class Status:
    status: str


@dataclass(frozen=True)
class NotReady:
    status: str
    reason: str


@routes.get("/healthz", None, Status, is_open=True)
async def healthz() -> Response:
    """The process answers. Needs no token, and says nothing else."""
    return Json(Status("ok"))


@routes.get("/readyz", None, Status, also={503: NotReady}, is_open=True)
async def readyz(services: Use) -> Response:
    """Whether it can work: 503 with the reason while it cannot. Needs no token."""
    reason = await services.figures.readiness.why_not()
    if reason:
        return Json(NotReady("not ready", reason), status_code=503)
    return Json(Status("ready"))


@routes.get("/metrics", Action.READ_FIGURES, Media("text/plain", "In the text format of Prometheus, 0.0.4."))
async def metrics(request: Request, services: Use) -> Response:
    """With the owner's token, or the one that `runyard metrics token` prints."""
    who = services.tokens.scraper(bearer_token(request))
    if who is None:
        raise Unauthorized(
            "The token is missing or does not open the figures.",
            hint="Send the one that `runyard metrics token` prints.",
        )
    text = await run_in_threadpool(services.figures.scrape, who, request.app.state.request_counts)
    return Response(text, headers={"Content-Type": CONTENT_TYPE})
