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

routes = Routes(tag="figures")
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
    """Liveness probe: the process answers. Needs no token."""
    return Json(Status("ok"))


@routes.get("/readyz", None, Status, also={503: NotReady}, is_open=True)
async def readyz(services: Use) -> Response:
    """Readiness probe: 503 with the reason while the service cannot work. Needs no token."""
    reason = await services.server_metrics.readiness.why_not()
    if reason:
        return Json(NotReady("not ready", reason), status_code=503)
    return Json(Status("ready"))


@routes.get("/metrics", Action.READ_FIGURES, Media("text/plain", "In the text format of Prometheus, 0.0.4."))
async def metrics(request: Request, services: Use) -> Response:
    """Metrics for Prometheus. Takes the owner's token, or the one that `runyard metrics token` prints."""
    who = services.tokens.scraper(bearer_token(request))
    if who is None:
        raise Unauthorized(
            "The token is missing or does not open the figures.",
            hint="Send the one that `runyard metrics token` prints.",
        )
    text = await run_in_threadpool(services.server_metrics.scrape, who, request.app.state.request_counts)
    return Response(text, headers={"Content-Type": CONTENT_TYPE})
