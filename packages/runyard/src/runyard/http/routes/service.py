import os
from dataclasses import dataclass
from datetime import timedelta

from fastapi import Request
from pydantic import Field
from starlette.responses import Response

from runyard.core.policy import Action
from runyard.http.answers import Json
from runyard.http.auth import is_from_outside
from runyard.http.context import Use, Who
from runyard.http.models import Body
from runyard.http.routing import Media, Routes
from runyard.services.upkeep import Freed
from runyard.version import API, VERSION, WIRE

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
def health(services: Use, who: Who, request: Request) -> Response:
    """Version, process and home of the service."""
    services.access.service(who, Action.SEE_SERVICE)
    state = request.app.state
    shares_files = state.shares_files and not is_from_outside(request)
    return Json(Health(VERSION, WIRE, API, os.getpid(), str(state.settings.home), shares_files))


@routes.get("/openapi.json", Action.READ_API, Media("application/json", "This description."))
def openapi(services: Use, who: Who, request: Request) -> Response:
    """The OpenAPI of this service."""
    services.access.service(who, Action.READ_API)
    return Response(request.app.state.openapi(), media_type="application/json")


@routes.post("/shutdown", Action.OPERATE_SERVICE, Stopping, status=202)
def shutdown(services: Use, who: Who, request: Request) -> Response:
    """Stop the service after this response. Runs continue without it."""
    services.access.service(who, Action.OPERATE_SERVICE)
    request.app.state.stop()
    return Json(Stopping(True), status_code=202)


@routes.post("/keep", Action.OPERATE_SERVICE, Kept)
def keep(services: Use, who: Who, request: Request) -> Response:
    """Keep the service running when idle."""
    services.access.service(who, Action.OPERATE_SERVICE)
    request.app.state.keep()
    return Json(Kept(True))


@routes.get("/du", Action.OPERATE_SERVICE, dict[str, int])
def du(services: Use, who: Who) -> Response:
    """Disk use of each part of the home, in bytes."""
    return Json(services.upkeep.used(who))


@routes.post("/gc", Action.OPERATE_SERVICE, dict[str, Freed])
def gc(services: Use, who: Who, body: Collection) -> Response:
    """Remove files that nothing refers to and that were not used for that long."""
    return Json(services.upkeep.collect(who, timedelta(seconds=body.older_than_seconds)))
