"""Paths of a web service's port."""

from enum import Enum
from typing import NamedTuple
from urllib.parse import quote, unquote

import httptools

from runyard.core.records.web_services import Scorer, ServiceSpec

_TENSORFLOW = "/v1/models/"


class RouteKind(Enum):
    SCORE = "score"
    """run() of the worker: plain requests are sent without their heads."""
    MODEL = "model"
    """Another route of the worker; it gets the head too."""
    HEALTH = "health"
    SWAGGER = "swagger"


class ServiceRoute(NamedTuple):
    kind: RouteKind
    methods: tuple[str, ...] = ()
    """Empty for SCORE: the worker says which it takes."""


class Target(NamedTuple):
    """Where a request goes; `route` is None for an unknown path."""

    route: ServiceRoute | None
    path: str
    """Path as sent, percent-encoded."""
    query: str


_SCORE = ServiceRoute(RouteKind.SCORE)
_HEALTH, _SWAGGER = ServiceRoute(RouteKind.HEALTH, ("GET", "HEAD")), ServiceRoute(RouteKind.SWAGGER, ("GET", "HEAD"))
_MODEL = ServiceRoute(RouteKind.MODEL, ("GET", "POST"))


class ServiceRoutes:
    def __init__(self, spec: ServiceSpec) -> None:
        self._below = f"/api/v1/service/{quote(spec.name)}"
        self._scoring_path = spec.scoring_path
        self._models = tuple(model.name for model in spec.models) if spec.scorer is Scorer.TENSORFLOW else ()
        routes = {
            "/": _HEALTH,
            self._below: _HEALTH,
            f"{self._below}/": _HEALTH,
            "/swagger.json": _SWAGGER,
            f"{self._below}/swagger.json": _SWAGGER,
            **dict.fromkeys(("/score", f"{self._below}/score", spec.scoring_path), _SCORE),
        }
        self._plain = {path.encode(): Target(route, path, "") for path, route in routes.items()}
        self._by_path = {unquote(path): route for path, route in routes.items()}

    def find(self, url: bytes) -> Target:
        """Raises ValueError for an invalid URL."""
        return self._plain.get(url) or self._search(url)

    def described(self) -> str:
        """Text for error messages: the paths that exist."""
        score = " or ".join(dict.fromkeys((self._scoring_path, "/score")))
        model = ""
        if self._models:
            model = f" GET /v1/models/{quote(self._models[0], safe='')} and .../metadata describe the model;"
        return f"POST {score} scores;{model} GET /swagger.json describes it; GET / says whether it is healthy."

    def _search(self, url: bytes) -> Target:
        if url == b"*":
            return Target(_HEALTH, "*", "")
        try:
            parsed = httptools.parse_url(url)
        except httptools.HttpParserInvalidURLError as error:
            raise ValueError("no URL") from error
        path, query = (parsed.path or b"/").decode("latin-1"), (parsed.query or b"").decode("latin-1")
        route = self._by_path.get(unquote(path))
        if route is None and self._models and path.startswith(_TENSORFLOW):
            route = _MODEL
        return Target(route, path, query)
