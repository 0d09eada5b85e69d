import os
from datetime import timedelta

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from runyard.errors import InvalidArgument
from runyard.http.answers import Json
from runyard.http.auth import is_from_outside, owner_only
from runyard.http.bodies import JsonBody
from runyard.http.context import Use
from runyard.version import API, VERSION, WIRE

router = APIRouter()
owners = APIRouter(dependencies=[Depends(owner_only)])


@router.get("/health")
async def health(request: Request) -> Response:
    state = request.app.state
    return Json(
        {
            "version": VERSION,
            "wire": WIRE,
            "api": API,
            "pid": os.getpid(),
            "home": str(state.settings.home),
            "shares_files": state.shares_files and not is_from_outside(request),
        }
    )


@owners.post("/shutdown")
async def shutdown(request: Request) -> Response:
    """Answers first; runs go on without the service."""
    request.app.state.stop()
    return Json({"stopping": True}, status_code=202)


@owners.post("/keep")
def keep(request: Request) -> Response:
    """The service no longer stops when idle."""
    request.app.state.keep()
    return Json({"kept": True})


@owners.get("/du")
def du(services: Use) -> Response:
    return Json(services.upkeep.used())


@owners.post("/gc")
def gc(services: Use, body: JsonBody) -> Response:
    seconds = body.get("older_than_seconds", 86400)
    if not isinstance(seconds, (int, float)) or isinstance(seconds, bool) or not 0 <= seconds <= 1e10:
        raise InvalidArgument(f"older_than_seconds must be a number of at least 0, got {seconds!r}.")
    return Json(services.upkeep.collect(timedelta(seconds=seconds)))
