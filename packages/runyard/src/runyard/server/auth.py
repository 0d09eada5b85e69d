"""Authentication: who calls. What each caller may do is decided in `core/policy.py` alone."""

from collections.abc import Awaitable, Callable
from functools import cache

from fastapi import Request

from runyard.core.errors import InvalidArgument, Unauthorized
from runyard.core.listen_settings import is_loopback
from runyard.core.policy import Action
from runyard.core.principal import Principal, Role
from runyard.core.settings import Settings
from runyard.server.http.listener import REMOTE_REQUEST
from runyard.server.http.worker_threads import run_in_thread
from runyard.server.services import Services

_PROXY_HEADERS = frozenset({"x-forwarded-for", "x-forwarded-host", "x-real-ip", "forwarded", "via"})
"""Headers that reverse proxies add."""


@cache
def authenticate_for(action: Action) -> Callable[[Request], Awaitable[None]]:
    """Dependency of a route with this action: sets `request.state.caller` before the body is read.

    Raises Unauthorized for an unknown or expired token, and Forbidden where the caller's role never has this action.
    """

    async def identify(request: Request) -> None:
        services: Services = request.app.state.services
        caller = services.tokens.identify(bearer_token(request))
        if caller is None:
            raise Unauthorized(
                "The token is missing or is not one of this service.",
                hint="Set RUNYARD_TOKEN to the owner's token: the file `token` in the home of the service.",
            )
        if caller.role is Role.RUN:  # reads the database
            caller = await run_in_thread(services.access.placed, caller)
        request.state.caller = caller
        services.access.right(caller, action)

    return identify


def bearer_token(request: Request) -> str:
    """Token of the Authorization header; empty without one."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def require_live_attempt(request: Request) -> None:
    """Raise AttemptOver where the caller's attempt ended while the request waited. May read the database."""
    caller: Principal = request.state.caller
    services: Services = request.app.state.services
    services.access.living(caller)


def is_remote(request: Request) -> bool:
    """Whether the client may be on another machine, where file paths mean something else."""
    if REMOTE_REQUEST in request.scope or not is_loopback(request.client.host if request.client else ""):
        return True
    if not _PROXY_HEADERS.isdisjoint(request.headers.keys()):
        return True
    # A proxy on this machine connects from loopback as local clients do. Supervisors never come through it, and
    # adopt only files of their own attempt.
    settings: Settings = request.app.state.settings
    is_shared = settings.is_behind_proxy and settings.listen is None
    return is_shared and request.state.caller.role is not Role.NODE


async def require_same_machine(request: Request) -> None:
    """Dependency of routes that read files by path. Raises InvalidArgument for remote clients."""
    if is_remote(request):
        raise InvalidArgument("The service does not see this machine's files.", hint="Send the files themselves.")
