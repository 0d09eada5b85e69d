"""The one place where an exception becomes an error response."""

import logging

from sqlalchemy.exc import DatabaseError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from runyard.core.disk import is_disk_full
from runyard.core.errors import InvalidArgument, NotFound, RunyardError, StorageFull, to_wire
from runyard.core.version import API, VERSION
from runyard.server.http.responses import Json
from runyard.storage.sql.salvage import is_damage

log = logging.getLogger("runyard.server")


def response_to(request: Request, problem: Exception) -> Response:
    """The error response to a request that raised this."""
    match problem:
        case RunyardError():
            return error_response(problem)
        case HTTPException():
            return _http_exception(request, problem)
        case ClientDisconnect():  # the client is gone and reads no response; a half-sent body has been dropped
            return error_response(InvalidArgument("The connection ended before the body did."))
        case OSError() if is_disk_full(problem):
            return error_response(
                StorageFull("The disk of the service's home is full.", hint="Free some space; nothing was lost.")
            )
    return unexpected_error(request.method, problem)


def error_response(error: RunyardError) -> Response:
    return Json(to_wire(error), status_code=error.status)


def unexpected_error(method: str, error: Exception) -> Response:
    """Log the exception, and tell the client only its class: the message may hold paths."""
    log.error("%s failed", method, exc_info=error)
    if isinstance(error, DatabaseError) and is_damage(error):
        hint = "Run `runyard check` on its machine: it names what is damaged, and --repair saves what can be read."
        return error_response(RunyardError("The service's database is damaged where this request reads it.", hint=hint))
    kind = type(error).__name__
    return error_response(
        RunyardError(f"The service failed at this request: {kind}.", hint="`runyard logs` on its machine tells more.")
    )


def _http_exception(request: Request, error: HTTPException) -> Response:
    if error.status_code == 404:
        return error_response(_no_route(request))
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
