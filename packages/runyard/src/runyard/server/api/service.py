import os
from dataclasses import dataclass
from datetime import timedelta

from fastapi import Request
from pydantic import Field
from starlette.responses import Response

from runyard.core.errors import Unauthorized
from runyard.core.policy import Action
from runyard.core.version import API, VERSION, WIRE
from runyard.server.auth import bearer_token, is_remote
from runyard.server.garbage_collection import Freed
from runyard.server.http.models import Body
from runyard.server.http.responses import Json
from runyard.server.http.routes import Media, Routes
from runyard.server.http.worker_threads import run_in_thread
from runyard.server.services import CallerDep, ServicesDep

routes = Routes(tag="service")


@dataclass(frozen=True)
class Health:
    version: str
    wire: int
    api: int
    pid: int
    home: str
    shares_files: bool
    """Whether the caller can open the service's files by their paths."""


@dataclass(frozen=True)
class Stopping:
    stopping: bool


@dataclass(frozen=True)
class Kept:
    kept: bool


class Collection(Body):
    older_than_seconds: float = Field(86400.0, ge=0, le=1e10)


@routes.get("/health", Action.SEE_SERVICE, Health)
def health(services: ServicesDep, who: CallerDep, request: Request) -> Response:
    """Version, process and home of the service."""
    services.access.service(who, Action.SEE_SERVICE)
    state = request.app.state
    shares_files = state.shares_files and not is_remote(request)
    return Json(Health(VERSION, WIRE, API, os.getpid(), str(state.settings.home), shares_files))


@routes.get("/openapi.json", Action.READ_API, Media("application/json", "This description."))
def openapi(services: ServicesDep, who: CallerDep, request: Request) -> Response:
    """The OpenAPI of this service."""
    services.access.service(who, Action.READ_API)
    return Response(request.app.state.openapi(), media_type="application/json")


@routes.post("/shutdown", Action.OPERATE_SERVICE, Stopping, status=202)
def shutdown(services: ServicesDep, who: CallerDep, request: Request) -> Response:
    """Stop the service after this response. Runs continue without it."""
    services.access.service(who, Action.OPERATE_SERVICE)
    request.app.state.stop()
    return Json(Stopping(True), status_code=202)


@routes.post("/keep", Action.OPERATE_SERVICE, Kept)
def keep(services: ServicesDep, who: CallerDep, request: Request) -> Response:
    """Keep the service running when idle."""
    services.access.service(who, Action.OPERATE_SERVICE)
    request.app.state.keep()
    return Json(Kept(True))


@routes.get("/du", Action.OPERATE_SERVICE, dict[str, int])
def du(services: ServicesDep, who: CallerDep) -> Response:
    """Disk use of each part of the home, in bytes."""
    return Json(services.upkeep.used(who))


@routes.post("/gc", Action.OPERATE_SERVICE, dict[str, Freed])
def gc(services: ServicesDep, who: CallerDep, body: Collection) -> Response:
    """Remove files that nothing refers to and that were not used for that long."""
    return Json(services.upkeep.collect(who, timedelta(seconds=body.older_than_seconds)))


probe_routes = Routes(tag="figures")
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True)
class Status:
    status: str


@dataclass(frozen=True)
class NotReady:
    status: str
    reason: str


@probe_routes.get("/healthz", None, Status, is_open=True)
async def healthz() -> Response:
    """Liveness probe: the process answers. Needs no token."""
    return Json(Status("ok"))


@probe_routes.get("/readyz", None, Status, also={503: NotReady}, is_open=True)
async def readyz(services: ServicesDep) -> Response:
    """Readiness probe: 503 with the reason while the service cannot work. Needs no token."""
    reason = await services.server_metrics.readiness.why_not()
    if reason:
        return Json(NotReady("not ready", reason), status_code=503)
    return Json(Status("ready"))


@probe_routes.get("/metrics", Action.READ_FIGURES, Media("text/plain", "In the text format of Prometheus, 0.0.4."))
async def metrics(request: Request, services: ServicesDep) -> Response:
    """Metrics for Prometheus. Takes the owner's token, or the one that `runyard metrics token` prints."""
    who = services.tokens.scraper(bearer_token(request))
    if who is None:
        raise Unauthorized(
            "The token is missing or does not open the figures.",
            hint="Send the one that `runyard metrics token` prints.",
        )
    text = await run_in_thread(services.server_metrics.scrape, who, request.app.state.request_counts)
    return Response(text, headers={"Content-Type": CONTENT_TYPE})
