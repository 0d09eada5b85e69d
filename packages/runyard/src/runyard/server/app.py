import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from inspect import iscoroutinefunction
from typing import Any

from fastapi import Depends, FastAPI, params
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from runyard.core.errors import InvalidArgument, RunyardError, Unauthorized
from runyard.core.listen_settings import matches_name
from runyard.core.settings import Settings
from runyard.core.version import API, VERSION, WIRE
from runyard.process_logs.setup import open_log
from runyard.server.access_log import NO_ROUTE, AccessLog, AnsweredRequest, RequestIdMiddleware
from runyard.server.api import (
    assets,
    attempts,
    blobs,
    datasets,
    datastores,
    endpoint_versions,
    environments,
    history,
    models,
    page,
    runs,
    secrets,
    service,
    sweeps,
    web_services,
    workspaces,
)
from runyard.server.api.datastores import file_routes
from runyard.server.api.records import RunSerializer
from runyard.server.api.runs import transfer_routes
from runyard.server.api.service import probe_routes
from runyard.server.auth import authenticate_for
from runyard.server.http import error_responses, openapi
from runyard.server.http.routes import Routes, install_body_readers
from runyard.server.http.thread_limits import ThreadLimits, limit_threads
from runyard.server.metrics.counters import OTHER, RequestCounters
from runyard.server.services import Services

PREFIX = f"/api/v{WIRE}"
_HOST_HEADER = re.compile(r"(?:(?P<name>[A-Za-z0-9._-]{1,255})|\[(?P<address>[0-9A-Fa-f:.]{2,64})\])(?::[0-9]{1,5})?")
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
    models.lineage_routes,
    models.package_routes,
    secrets.routes,
    environments.routes,
    environments.package_routes,
    transfer_routes,
)
ROOT_ROUTERS: Sequence[Routes] = (page.routes, probe_routes)
_DATA_THREADS = ThreadLimits(at_once=64, of_a_run=32)
"""Threads of requests to datastores and web addresses, which may be slow to answer."""
_DATA_ROUTES = (datasets.routes, file_routes, datastores.routes)
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
    app.state.openapi = cache(lambda: openapi.openapi_text(ROUTERS, PREFIX, ROOT_ROUTERS))
    address = settings.public_url or base_url
    app.state.run_wire = RunSerializer(services, address)
    for router in ROUTERS:
        _add_routes(app, router, PREFIX, identifies=True)
    for router in ROOT_ROUTERS:
        _add_routes(app, router, "", identifies=False)
    error_responses.install_error_handlers(app)
    app.add_middleware(HostCheckMiddleware, allowed_hosts=settings.allowed_hosts)
    app.add_middleware(ForwardedHeadersMiddleware, proxies=settings.trusted_proxies)
    app.state.access_log = AccessLog(
        open_log(settings.home, "access", "access"), errors_only=settings.log_level in ("warning", "error")
    )
    app.state.request_counts = RequestCounters()
    app.add_middleware(RequestIdMiddleware, answered=_request_recorder(app.state.access_log, app.state.request_counts))
    return app


def _request_recorder(access_log: AccessLog, counts: RequestCounters) -> Callable[[AnsweredRequest], None]:
    def note(answered: AnsweredRequest) -> None:
        route = OTHER if answered.route == NO_ROUTE else answered.route
        counts.note(answered.method, route, answered.status, answered.milliseconds / 1000)
        access_log.note(answered)

    return note


def _add_routes(app: FastAPI, routes: Routes, prefix: str, *, identifies: bool) -> None:
    """Add routes one by one, because an included router costs time on every request. With `identifies`, each
    authenticates its caller before it runs; otherwise the endpoint does that itself."""
    for declared in routes.all:
        install_body_readers(declared.endpoint)
        first: list[params.Depends] = []
        if identifies:
            assert declared.action is not None, f"{declared.method} {declared.path} names no action."
            first.append(Depends(authenticate_for(declared.action)))
        waits = routes in _DATA_ROUTES and not iscoroutinefunction(declared.endpoint)
        app.router.add_api_route(
            prefix + declared.path,
            limit_threads(_DATA_THREADS, declared.endpoint) if waits else declared.endpoint,
            methods=[declared.method],
            dependencies=[*first, *declared.dependencies],
            response_model=None,
        )


_VERSIONS = (
    (b"x-runyard-wire", str(WIRE).encode()),
    (b"x-runyard-api", str(API).encode()),
    (b"x-runyard-version", VERSION.encode()),
)


class HostCheckMiddleware:
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
            await error_responses.error_response(refusal)(scope, receive, marked)
            return
        try:
            await self._app(scope, receive, marked)
        except Exception as problem:  # outermost handler: the client must get a response
            answer = error_responses.unexpected_error(scope["method"], problem)
            if not began:
                await answer(scope, receive, marked)

    def _refusal(self, hosts: list[bytes], server: tuple[str, int | None] | None) -> RunyardError | None:
        if len(hosts) > 1:
            return InvalidArgument(f"The request has {len(hosts)} Host headers.", hint="Send one.")
        host = _HOST_HEADER.fullmatch(hosts[0].decode("latin-1") if hosts else "")
        if host is None or not self._knows((host["name"] or host["address"]).lower(), server):
            return Unauthorized("The Host header is not a name of this service.", hint="Set RUNYARD_ALLOWED_HOSTS.")
        return None

    def _knows(self, name: str, server: tuple[str, int | None] | None) -> bool:
        """Whether the name is allowed. The address that the client connected to always is: no DNS name can claim it."""
        if name in self._allowed or (server and name == server[0].removeprefix("::ffff:")):
            return True
        return any(matches_name(name, allowed) for allowed in self._wildcards)


_FORWARDED_FOR, _FORWARDED_PROTO, _FORWARDED_HOST = b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host"
_SCHEMES = frozenset({"http", "https"})


class ForwardedHeadersMiddleware:
    """Middleware that applies X-Forwarded-For, -Proto and -Host, from trusted proxies only."""

    def __init__(self, app: ASGIApp, proxies: frozenset[str]) -> None:
        self._app, self._proxies = app, proxies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = scope.get("client")
        if client and self._proxies and client[0].removeprefix("::ffff:") in self._proxies:
            self._apply(scope, client[0])
        await self._app(scope, receive, send)

    def _apply(self, scope: Scope, proxy: str) -> None:
        forwarded = {
            name: value.decode("latin-1")
            for name, value in scope["headers"]
            if name in (_FORWARDED_FOR, _FORWARDED_PROTO, _FORWARDED_HOST)
        }
        if _FORWARDED_FOR in forwarded:
            scope["client"] = (self._client_address(forwarded[_FORWARDED_FOR].split(","), proxy), 0)
        if forwarded.get(_FORWARDED_PROTO, "").strip().lower() in _SCHEMES:
            scope["scheme"] = forwarded[_FORWARDED_PROTO].strip().lower()
        if forwarded.get(_FORWARDED_HOST, "").strip():
            rest = [(name, value) for name, value in scope["headers"] if name != b"host"]
            scope["headers"] = [(b"host", forwarded[_FORWARDED_HOST].strip().encode("latin-1")), *rest]

    def _client_address(self, addresses: Iterable[str], proxy: str) -> str:
        """The last address that is no trusted proxy; earlier ones could be made up by the client."""
        for address in reversed([one.strip() for one in addresses]):
            if address and address not in self._proxies:
                return address
        return proxy
