from collections.abc import Callable, Sequence
from functools import cache

from runyard.core.settings import Settings
from runyard.core.version import WIRE
from runyard.process_logs.setup import open_log
from runyard.server.access_log import NO_ROUTE, AccessLog, AnsweredRequest
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
from runyard.server.http import openapi
from runyard.server.http.application import Application
from runyard.server.http.forwarded import ForwardedHeaders
from runyard.server.http.handlers import RouteHandler
from runyard.server.http.host_check import HostCheck
from runyard.server.http.routes import Routes
from runyard.server.http.thread_limits import ThreadLimits
from runyard.server.metrics.counters import OTHER, RequestCounters
from runyard.server.services import Services

PREFIX = f"/api/v{WIRE}"
# Matched in order: those that every run calls often come first.
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


def build_app(
    services: Services, settings: Settings, *, base_url: str, shares_files: bool, stop: Callable[[], None]
) -> Application:
    """Build the application with all routes. POST /shutdown calls `stop`, which must not block."""
    access_log = AccessLog(
        open_log(settings.home, "access", "access"), errors_only=settings.log_level in ("warning", "error")
    )
    counts = RequestCounters()
    app = Application(
        _handlers(),
        hosts=HostCheck(settings.allowed_hosts),
        forwarded=ForwardedHeaders(settings.trusted_proxies),
        answered=_request_recorder(access_log, counts),
    )
    app.state.services = services
    app.state.settings = settings
    app.state.shares_files = shares_files
    app.state.stop = stop
    app.state.openapi = cache(lambda: openapi.openapi_text(ROUTERS, PREFIX, ROOT_ROUTERS))
    app.state.run_wire = RunSerializer(services, settings.public_url or base_url)
    app.state.access_log = access_log
    app.state.request_counts = counts
    return app


def _handlers() -> list[RouteHandler]:
    """Handlers of all routes. Those below the prefix authenticate their caller before all else; the others do that
    themselves."""
    found = []
    for routes in ROUTERS:
        limits = _DATA_THREADS if routes in _DATA_ROUTES else None
        for route in routes.all:
            assert route.action is not None, f"{route.method} {route.path} names no action."
            found.append(RouteHandler(route, PREFIX, first=[authenticate_for(route.action)], limits=limits))
    found.extend(RouteHandler(route, "") for routes in ROOT_ROUTERS for route in routes.all)
    return found


def _request_recorder(access_log: AccessLog, counts: RequestCounters) -> Callable[[AnsweredRequest], None]:
    def note(answered: AnsweredRequest) -> None:
        route = OTHER if answered.route == NO_ROUTE else answered.route
        counts.note(answered.method, route, answered.status, answered.milliseconds / 1000)
        access_log.note(answered)

    return note
