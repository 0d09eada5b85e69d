"""The OpenAPI document, made from the declared routes and the docstrings below model fields, on request."""

import re
import warnings
from collections.abc import Sequence
from typing import Any

import orjson
from fastapi import FastAPI
from pydantic.warnings import UnsupportedFieldAttributeWarning
from starlette.responses import JSONResponse, Response

from runyard.http.field_notes import add_notes
from runyard.http.models import ErrorAnswer
from runyard.http.routing import Media, Route, Routes, described
from runyard.version import VERSION

_ABOUT = (
    "Every request needs `Authorization: Bearer TOKEN`. Answers that are no success are an `ErrorAnswer`: 401 where the"
    " token is not known, 403 where it is known and not allowed to do that. Fields that a client does not know are to"
    " be ignored: newer services may add some."
)

_ERROR = "#/components/responses/Error"


def text(routers: Sequence[Routes], prefix: str, at_root: Sequence[Routes] = ()) -> bytes:
    return orjson.dumps(schema(routers, prefix, at_root), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def schema(routers: Sequence[Routes], prefix: str, at_root: Sequence[Routes] = ()) -> dict[str, Any]:
    """OpenAPI of the routes below the prefix, and of those at the root."""
    app = FastAPI(title="Runyard", version=VERSION, description=_ABOUT)
    models: list[Any] = [ErrorAnswer]
    for below, given in ((prefix, routers), ("", at_root)):
        for router in given:
            for route in router.all:
                _add(app, route, below)
                models += route.models
    with warnings.catch_warnings():
        # With deferred models pydantic warns about an annotation that FastAPI adds itself.
        warnings.simplefilter("ignore", UnsupportedFieldAttributeWarning)
        made = app.openapi()
    parts = made["components"]
    parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    add_notes(parts["schemas"], models)
    parts["responses"] = {_ERROR.rpartition("/")[2]: _take_errors(made["paths"])}
    made["security"] = [{"token": []}]
    made["paths"] = {_plain(path): operations for path, operations in made["paths"].items()}
    _drop_titles(made["paths"])
    _drop_titles(parts)
    return made


def _take_errors(paths: dict[str, Any]) -> Any:
    """Make every operation refer to one shared error response; return that response."""
    for operations in paths.values():
        for operation in operations.values():
            taken = operation["responses"].pop("default")
            operation["responses"].pop("422", None)
            operation["responses"]["default"] = {"$ref": _ERROR}
    return taken


def _drop_titles(part: Any) -> None:
    """Remove the titles that pydantic derives from field names: they say nothing."""
    if isinstance(part, dict):
        if isinstance(part.get("title"), str):
            del part["title"]
        for inner in part.values():
            _drop_titles(inner)
    elif isinstance(part, list):
        for inner in part:
            _drop_titles(inner)


def _add(app: FastAPI, route: Route, prefix: str) -> None:
    is_media = isinstance(route.answers, Media)
    answers: dict[int | str, dict[str, Any]] = {
        "default": {"model": ErrorAnswer, "description": "What went wrong, and the next step."},
        422: {"model": ErrorAnswer},  # in place of FastAPI's own
    }
    for status, model in route.also.items():
        answers[status] = {"model": model}
    if is_media:
        answers[route.status] = {"description": route.answers.about, "content": {route.answers.type: {}}}
    more: dict[str, Any] = {"security": []} if route.is_open else {}
    if route.takes:
        more["requestBody"] = {
            "description": route.takes.about,
            "required": True,
            "content": {route.takes.type: {}},
        }
    app.add_api_route(
        prefix + route.path,
        described(route),
        methods=[route.method],
        status_code=route.status,
        response_model=None if is_media else route.answers,
        response_class=Response if is_media else JSONResponse,
        responses=answers,
        operation_id=route.operation_id,
        tags=[route.tag],
        openapi_extra=more,
    )


def _plain(path: str) -> str:
    """The path without Starlette's converters."""
    return re.sub(r"\{(\w+):\w+\}", r"{\1}", path)
