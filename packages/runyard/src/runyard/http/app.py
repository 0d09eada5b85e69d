import re
from collections.abc import Callable, Sequence
from functools import cache
from inspect import iscoroutinefunction
from typing import Any

from fastapi import Depends, FastAPI, params
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from runyard.errors import InvalidArgument, RunyardError, Unauthorized
from runyard.figures.counts import OTHER, RequestCounts
from runyard.http import failures, openapi
from runyard.http.access_log import NO_ROUTE, AccessLog, Answered, RequestIds
from runyard.http.auth import caller_for
from runyard.http.context import Services
from runyard.http.forwarded import ForwardedRequests
from runyard.http.places import Places, in_places
from runyard.http.records import RunWire
from runyard.http.routes import (
    assets,
    attempts,
    blobs,
    builds,
    datasets,
    datastores,
    endpoint_versions,
    history,
    model_lineage,
    package_settings,
    packaging,
    page,
    runs,
    secrets,
    service,
    sweeps,
    web_services,
    workspaces,
)
from runyard.http.routes.datastore_files import routes as file_routes
from runyard.http.routes.figures import routes as probe_routes
from runyard.http.routes.moving import routes as transfer_routes
from runyard.http.routing import Routes, read_bodies
from runyard.listen_settings import is_named
from runyard.process_logs.setup import open_log
from runyard.settings import Settings
from runyard.version import API, VERSION, WIRE

PREFIX = f"/api/v{WIRE}"
_HOST = re.compile(r"(?:(?P<name>[A-Za-z0-9._-]{1,255})|\[(?P<address>[0-9A-Fa-f:.]{2,64})\])(?::[0-9]{1,5})?")
# Starlette matches routes in order: those that every run calls often come first.
ROUTERS: Sequence[Routes] = (
    attempts.routes,
    history.routes,
    runs.routes,
    sweeps.routes,
    service.routes,
    workspaces.routes,
    blobs.routes,
    datasets.routes,
    file_routes,
    datastores.routes,
    assets.routes,
    web_services.routes,
    endpoint_versions.routes,
    model_lineage.routes,
    packaging.routes,
    secrets.routes,
    builds.routes,
    package_settings.routes,
    transfer_routes,
)
AT_ROOT: Sequence[Routes] = (page.routes, probe_routes)
_DATA_REQUESTS = Places(at_once=64, of_a_run=32)
"""Threads of requests to datastores and web addresses, which may be slow to answer."""
_OF_DATA = (datasets.routes, file_routes, datastores.routes)
# Bodies hold secrets and users' code: keep them from any tracer that happens to be installed.
NO_TELEMETRY: Any = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}


def build_app(
    services: Services, settings: Settings, *, base_url: str, shares_files: bool, stop: Callable[[], None]
) -> FastAPI:
    """Build the application with all routes and middleware. POST /shutdown calls `stop`, which must not block."""
    app = FastAPI(
        title="Runyard", version=VERSION, openapi_url=None, docs_url=None, redoc_url=None, telemetry=NO_TELEMETRY
    )
    app.state.services = services
    app.state.settings = settings
    app.state.shares_files = shares_files
    app.state.stop = stop
    app.state.openapi = cache(lambda: openapi.text(ROUTERS, PREFIX, AT_ROOT))
    address = settings.public_url or base_url
    app.state.run_wire = RunWire(services, address)
    for router in ROUTERS:
        _add_routes(app, router, PREFIX, identifies=True)
    for router in AT_ROOT:
        _add_routes(app, router, "", identifies=False)
    failures.install(app)
    app.add_middleware(Doorkeeper, allowed_hosts=settings.allowed_hosts)
    app.add_middleware(ForwardedRequests, proxies=settings.trusted_proxies)
    app.state.access_log = AccessLog(
        open_log(settings.home, "access", "access"), errors_only=settings.log_level in ("warning", "error")
    )
    app.state.request_counts = RequestCounts()
    app.add_middleware(RequestIds, answered=_noting(app.state.access_log, app.state.request_counts))
    return app


def _noting(access_log: AccessLog, counts: RequestCounts) -> Callable[[Answered], None]:
    def note(answered: Answered) -> None:
        route = OTHER if answered.route == NO_ROUTE else answered.route
        counts.note(answered.method, route, answered.status, answered.milliseconds / 1000)
        access_log.note(answered)

    return note


def _add_routes(app: FastAPI, routes: Routes, prefix: str, *, identifies: bool) -> None:
    """Add routes one by one, because an included router costs time on every request. With `identifies`, each
    authenticates its caller before it runs; otherwise the endpoint does that itself."""
    for declared in routes.all:
        read_bodies(declared.endpoint)
        first: list[params.Depends] = []
        if identifies:
            assert declared.action is not None, f"{declared.method} {declared.path} names no action."
            first.append(Depends(caller_for(declared.action)))
        waits = routes in _OF_DATA and not iscoroutinefunction(declared.endpoint)
        app.router.add_api_route(
            prefix + declared.path,
            in_places(_DATA_REQUESTS, declared.endpoint) if waits else declared.endpoint,
            methods=[declared.method],
            dependencies=[*first, *declared.dependencies],
            response_model=None,
        )


_VERSIONS = (
    (b"x-runyard-wire", str(WIRE).encode()),
    (b"x-runyard-api", str(API).encode()),
    (b"x-runyard-version", VERSION.encode()),
)


class Doorkeeper:
    """Middleware that refuses unknown Host headers (DNS rebinding), adds the version headers to every response, and
    turns an unexpected exception into an error response."""

    def __init__(self, app: ASGIApp, allowed_hosts: frozenset[str]) -> None:
        self._app, self._allowed = app, allowed_hosts
        self._wildcards = [name for name in allowed_hosts if name.startswith("*.")]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = False

        async def marked(message: Message) -> None:
            nonlocal began
            if message["type"] == "http.response.start":
                began = True
                message["headers"] = [*message.get("headers", ()), *_VERSIONS]
            await send(message)

        refusal = self._refusal([value for name, value in scope["headers"] if name == b"host"], scope.get("server"))
        if refusal is not None:
            await failures.answer(refusal)(scope, receive, marked)
            return
        try:
            await self._app(scope, receive, marked)
        except Exception as problem:  # outermost handler: the client must get a response
            answer = failures.unexpected(scope["method"], problem)
            if not began:
                await answer(scope, receive, marked)

    def _refusal(self, hosts: list[bytes], server: tuple[str, int | None] | None) -> RunyardError | None:
        if len(hosts) > 1:
            return InvalidArgument(f"The request has {len(hosts)} Host headers.", hint="Send one.")
        host = _HOST.fullmatch(hosts[0].decode("latin-1") if hosts else "")
        if host is None or not self._knows((host["name"] or host["address"]).lower(), server):
            return Unauthorized("The Host header is not a name of this service.", hint="Set RUNYARD_ALLOWED_HOSTS.")
        return None

    def _knows(self, name: str, server: tuple[str, int | None] | None) -> bool:
        """Whether the name is allowed. The address that the client connected to always is: no DNS name can claim it."""
        if name in self._allowed or (server and name == server[0].removeprefix("::ffff:")):
            return True
        return any(is_named(name, allowed) for allowed in self._wildcards)
