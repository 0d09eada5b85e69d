"""Exception handlers: the one place where an exception becomes an error response."""

import errno
import logging

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import DatabaseError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from runyard.errors import InvalidArgument, NotFound, RunyardError, StorageFull, to_wire
from runyard.http.answers import Json
from runyard.http.bodies import not_as_expected
from runyard.stores.salvage import is_damage
from runyard.version import API, VERSION

log = logging.getLogger("runyard.http")
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def install(app: FastAPI) -> None:
    app.add_exception_handler(RunyardError, _ours)
    app.add_exception_handler(RequestValidationError, _not_valid)
    app.add_exception_handler(HTTPException, _from_routing)
    app.add_exception_handler(OSError, _from_the_disk)
    app.add_exception_handler(ClientDisconnect, _gone)


def answer(error: RunyardError) -> Response:
    return Json(to_wire(error), status_code=error.status)


def unexpected(method: str, error: Exception) -> Response:
    """Log the exception, and tell the client only its class: the message may hold paths."""
    log.error("%s failed", method, exc_info=error)
    if isinstance(error, DatabaseError) and is_damage(error):
        hint = "Run `runyard check` on its machine: it names what is damaged, and --repair saves what can be read."
        return answer(RunyardError("The service's database is damaged where this request reads it.", hint=hint))
    kind = type(error).__name__
    return answer(
        RunyardError(f"The service failed at this request: {kind}.", hint="`runyard logs` on its machine tells more.")
    )


async def _ours(request: Request, error: Exception) -> Response:
    assert isinstance(error, RunyardError)
    return answer(error)


async def _not_valid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return answer(not_as_expected([{**one, "loc": one["loc"][1:]} for one in error.errors()]))


async def _from_routing(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return answer(_no_route(request))
    body = to_wire(InvalidArgument(f"{error.detail}."))
    return Json(body, status_code=error.status_code, headers=error.headers)


def _no_route(request: Request) -> RunyardError:
    if b"%2f" in request.scope.get("raw_path", b"").lower():
        return NotFound("There is nothing of that name: it holds a '/', which no id or name does.")
    client, api = request.headers.get("user-agent", "")[:60], request.headers.get("x-runyard-api", "")[:9]
    if not client.startswith("runyard-sdk/"):
        hint = "Is the client newer than the service?"
        return NotFound("There is no such route.", hint=f"{hint} This is Runyard {VERSION}, API {API}.", no_route=True)
    if api.isdecimal() and int(api) > API:
        hint = "The client is newer: have the service run a newer version, by pip install --upgrade runyard and then:"
        hint = f"{hint} runyard down && runyard up."
    elif api.isdecimal() and int(api) == API:
        hint = "Both speak the same API: is the address right, and neither newer than its number?"
    else:
        hint = "The service is newer than the client: pip install --upgrade runyard-sdk."
    asked = f"{request.method} {request.url.path[:200]}"
    text = f"There is no such route: {asked}. The client is {client}, API {api or 1}; the service is Runyard {VERSION}"
    return NotFound(f"{text}, API {API}.", hint=hint, no_route=True)


async def _from_the_disk(request: Request, error: Exception) -> Response:
    assert isinstance(error, OSError)
    if error.errno in FULL:
        return answer(StorageFull("The disk of the service's home is full.", hint="Free some space; nothing was lost."))
    return unexpected(request.method, error)


async def _gone(request: Request, error: Exception) -> Response:
    """The client is gone and reads no response; a half-sent body has been dropped."""
    return answer(InvalidArgument("The connection ended before the body did."))
