"""Who calls, told from the request. What each caller may do is in `core/policy.py` alone."""

from collections.abc import Awaitable, Callable
from functools import cache

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from runyard.core.policy import Action
from runyard.core.principal import Principal, Role
from runyard.errors import InvalidArgument, Unauthorized
from runyard.http.context import Services
from runyard.http.open_listener import FROM_OUTSIDE
from runyard.listen_settings import is_loopback
from runyard.settings import Settings

_OF_PROXIES = frozenset({"x-forwarded-for", "x-forwarded-host", "x-real-ip", "forwarded", "via"})
"""Headers that a proxy adds."""


@cache
def caller_for(action: Action) -> Callable[[Request], Awaitable[None]]:
    """A dependency of a route for that action: sets `request.state.caller`. Raises Unauthorized for a token that is
    unknown or over, and Forbidden for a caller who may do that to nothing; the body is not read by then."""

    async def identify(request: Request) -> None:
        services: Services = request.app.state.services
        caller = services.tokens.identify(bearer_token(request))
        if caller is None:
            raise Unauthorized(
                "The token is missing or is not one of this service.",
                hint="Set RUNYARD_TOKEN to the owner's token: the file `token` in the home of the service.",
            )
        if caller.role is Role.RUN:  # it reads the database
            caller = await run_in_threadpool(services.access.placed, caller)
        request.state.caller = caller
        services.access.right(caller, action)

    return identify


def bearer_token(request: Request) -> str:
    """Empty where there is none."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def require_living(request: Request) -> None:
    """AttemptOver for whoever speaks for an attempt that ended while it waited. It may read the database."""
    caller: Principal = request.state.caller
    services: Services = request.app.state.services
    services.access.living(caller)


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
