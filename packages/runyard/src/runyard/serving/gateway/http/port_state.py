"""State that all connections of one port share: checks, limits, health, and answers that need no worker."""

from collections.abc import Callable

import orjson

from runyard.core.records.web_services import Scorer, ServiceSpec, ServiceState
from runyard.serving.gateway.dispatch import Dispatcher, Splitter
from runyard.serving.gateway.dispatch.request import Refusal
from runyard.serving.gateway.http.connection_set import ClientLimits, ConnectionSet, connection_slots
from runyard.serving.gateway.http.request_checks import CorsPolicy, HostCheck, KeyCheck
from runyard.serving.gateway.http.response_head import RequestIdSource
from runyard.serving.gateway.http.routes import RouteKind, ServiceRoute, ServiceRoutes, Target
from runyard_sdk.scoring import openapi

_LARGEST_BODY = (1 << 30) - (1 << 20)
"""Largest body that fits into a frame."""
_METHODS_WITH_BODY = ("POST", "PUT", "PATCH")


WriteLogLine = Callable[[str], None]
"""Writes a line to the log of the web service."""


class PortState:
    def __init__(
        self, spec: ServiceSpec, dispatcher: Dispatcher | Splitter, log_line: WriteLogLine, limits: ClientLimits
    ) -> None:
        self.dispatcher, self.log_line, self.limits = dispatcher, log_line, limits
        self.connections = ConnectionSet(limits.connections, connection_slots())
        self.ids = RequestIdSource()
        self.is_closing = False
        self._state, self._problem = ServiceState.TRANSITIONING, ""
        self.reconfigure(spec)

    def reconfigure(self, spec: ServiceSpec) -> None:
        self._spec = spec
        self.routes, self.hosts, self.keys = ServiceRoutes(spec), HostCheck(spec), KeyCheck(spec)
        self.cross_origin = CorsPolicy(spec.variables.get("AML_CORS_ORIGINS", ""))
        self.body_bytes = min(spec.limits.request_bytes, _LARGEST_BODY)

    def set_health(self, state: ServiceState, problem: str) -> None:
        self._state, self._problem = state, problem
        self.dispatcher.set_outage(None if state is ServiceState.HEALTHY else self._outage())

    @property
    def realm(self) -> str:
        return self._spec.name

    def methods(self, route: ServiceRoute) -> tuple[str, ...]:
        """Methods of a route, without OPTIONS."""
        if route.kind is not RouteKind.SCORE:
            return route.methods
        facts = self.dispatcher.facts
        return facts.methods if facts is not None else ("POST", "GET")

    def refusal(self, method: str, target: Target, fields: dict[bytes, bytes]) -> Refusal | None:
        """Check path, method and content headers; Host and keys are checked elsewhere."""
        if target.route is None:
            return Refusal(404, f"There is nothing at {target.path[:200]!a}. {self.routes.described()}")
        methods = self.methods(target.route)
        if method not in methods and method != "OPTIONS":
            known = " and ".join(methods)
            return Refusal(405, f"{target.path} does not take {method}, but {known}. {self.routes.described()}")
        return self._content_refusal(method, target.route, fields) if method in _METHODS_WITH_BODY else None

    def health(self) -> Refusal | None:
        """None while there is a worker that can answer."""
        return None if self.dispatcher.is_served else Refusal(503, self._outage(), 1)

    def swagger(self, query: str) -> bytes:
        """OpenAPI 3 when the query has version=3, else Swagger 2."""
        facts = self.dispatcher.facts
        document = openapi.document(
            self._spec.name,
            self._spec.scoring_path,
            (facts.schema if facts else None) or dict(self._spec.schema),
            methods=self.methods(ServiceRoute(RouteKind.SCORE)),
            keys=not self.keys.is_open,
            version=3 if "version=3" in query.split("&") else 2,
        )
        return orjson.dumps(document)

    def _content_refusal(self, method: str, route: ServiceRoute, fields: dict[bytes, bytes]) -> Refusal | None:
        facts = self.dispatcher.facts
        if facts is None or facts.wants_heads:
            return None
        if fields.get(b"content-encoding", b"identity").lower() != b"identity" or _has_transfer_compression(fields):
            return Refusal(415, "A packed body is not taken. Send it as it is, without Content-Encoding.")
        if self._spec.scorer is Scorer.SCRIPT and facts.schema.get("input") and not _is_json(fields):
            given = fields[b"content-type"].decode("latin-1")
            return Refusal(415, f"Content-Type {given[:100]!a} is not taken here. Send JSON as application/json.")
        return None

    def _outage(self) -> str:
        name = self._spec.name
        if self._state is ServiceState.TRANSITIONING:
            return f"Web service {name!r} is being deployed: no worker is ready yet."
        if self._state is ServiceState.DELETING:
            return f"Web service {name!r} is being deleted."
        if self._state is ServiceState.HEALTHY:
            return f"Web service {name!r} is starting its workers."
        return f"Web service {name!r} is {self._state.lower()}: no worker answers. {self._problem}".strip()


def _has_transfer_compression(fields: dict[bytes, bytes]) -> bool:
    return fields.get(b"transfer-encoding", b"chunked").lower() != b"chunked"


def _is_json(fields: dict[bytes, bytes]) -> bool:
    given = fields.get(b"content-type")
    if given is None:
        return True
    media = given.partition(b";")[0].strip().lower()
    return media in (b"application/json", b"text/json") or media.endswith(b"+json")
