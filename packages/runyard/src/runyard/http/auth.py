"""Who is let in, and to what. The owner may do all; a script's and a node's token reach what their run needs."""

from dataclasses import replace

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from runyard.core.principal import Principal, Role
from runyard.errors import AttemptOver, Forbidden, InvalidArgument, NotFound, Unauthorized
from runyard.http.context import Services
from runyard.http.open_listener import FROM_OUTSIDE
from runyard.listen_settings import is_loopback
from runyard.model.runs import RunRecord
from runyard.settings import Settings
from runyard.version import WIRE

_OF_PROXIES = frozenset({"x-forwarded-for", "x-forwarded-host", "x-real-ip", "forwarded", "via"})
"""Headers that a proxy adds."""
_ONE_DATASTORE = "/workspaces/{workspace}/datastores/{name}"
FOR_NODES = tuple(
    f"/api/v{WIRE}{route}"
    for route in (
        "/health",
        "/attempts/{attempt_id}/",
        *(f"/runs/{{run_id}}/{kind}" for kind in ("logs", "journals", "files")),
        "/blobs/",
        *(f"{_ONE_DATASTORE}/{verb}" for verb in ("files", "stat", "read-many", "write-many")),
    )
)
"""How the routes begin that a node's token opens; what each of them lets it do is checked there."""


async def identify(request: Request) -> None:
    """Sets `request.state.caller`. A run's token is good until that run, or the attempt it was for, has ended."""
    services: Services = request.app.state.services
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    caller = services.tokens.identify(token.strip()) if scheme.lower() == "bearer" else None
    if caller is None:
        raise Unauthorized(
            "The token is missing or is not one of this service.",
            hint="Set RUNYARD_TOKEN to the owner's token: the file `token` in the home of the service.",
        )
    if caller.role is Role.NODE and not request.scope["route"].path.startswith(FOR_NODES):
        raise Forbidden("A node's token does what its attempt needs, and nothing else.")
    if caller.role is Role.RUN:
        caller = await run_in_threadpool(_placed, services, caller)
    request.state.caller = caller


def require_living(request: Request) -> None:
    """AttemptOver for whoever speaks for an attempt that ended while it waited. It may read the database."""
    caller: Principal = request.state.caller
    if caller.attempt_id is not None:
        services: Services = request.app.state.services
        services.fence.check(caller.attempt_id)


def is_from_outside(request: Request) -> bool:
    """Whether the client may be on another machine, so that no path means the same to it and to the service."""
    if FROM_OUTSIDE in request.scope or not is_loopback(request.client.host if request.client else ""):
        return True
    if not _OF_PROXIES.isdisjoint(request.headers.keys()):
        return True
    # A proxy may ask just as a client of this machine does. The supervisors of this machine do not come through it, and
    # take files from their own attempt's folders alone.
    settings: Settings = request.app.state.settings
    is_shared = settings.is_behind_proxy and settings.listen is None
    return is_shared and request.state.caller.role is not Role.NODE


async def same_machine(request: Request) -> None:
    """For routes that take files by their paths."""
    if is_from_outside(request):
        raise InvalidArgument("The service does not see this machine's files.", hint="Send the files themselves.")


def _placed(services: Services, caller: Principal) -> Principal:
    """The script's caller with its workspace. Refused once the run, or the attempt, has ended."""
    run = _run_of(services, caller)
    if run.status.is_terminal:
        raise Unauthorized(f"Run {caller.run_id} has ended, and its token with it.")
    if caller.attempt_id != run.ticket:
        raise AttemptOver(f"Attempt {caller.attempt_id} was given up: run {run.id} goes on elsewhere.")
    return replace(caller, workspace=run.workspace)


def _run_of(services: Services, caller: Principal) -> RunRecord:
    assert caller.run_id is not None
    try:
        return services.run_store.get(caller.run_id)
    except NotFound:
        raise Unauthorized(f"Run {caller.run_id} is gone, and its token with it.") from None
