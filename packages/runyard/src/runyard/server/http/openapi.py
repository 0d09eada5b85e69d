"""The OpenAPI document, made from the declared routes and the docstrings below model fields, on request."""

import ast
import inspect
import re
import textwrap
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import is_dataclass
from typing import Any, get_args, get_type_hints

import orjson
from fastapi import FastAPI
from pydantic import BaseModel
from pydantic.warnings import UnsupportedFieldAttributeWarning
from starlette.responses import JSONResponse, Response
from typing_extensions import is_typeddict

from runyard.core.version import VERSION
from runyard.server.http.models import ErrorAnswer
from runyard.server.http.routes import Media, Route, Routes, openapi_stub

_ABOUT = (
    "Every request needs `Authorization: Bearer TOKEN`. Answers that are no success are an `ErrorAnswer`: 401 where the"
    " token is not known, 403 where it is known and not allowed to do that. Fields that a client does not know are to"
    " be ignored: newer services may add some."
)

_ERROR = "#/components/responses/Error"


def openapi_text(routers: Sequence[Routes], prefix: str, at_root: Sequence[Routes] = ()) -> bytes:
    return orjson.dumps(
        openapi_schema(routers, prefix, at_root), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    )


def openapi_schema(routers: Sequence[Routes], prefix: str, at_root: Sequence[Routes] = ()) -> dict[str, Any]:
    """OpenAPI of the routes below the prefix, and of those at the root."""
    app = FastAPI(title="Runyard", version=VERSION, description=_ABOUT)
    models: list[Any] = [ErrorAnswer]
    for below, given in ((prefix, routers), ("", at_root)):
        for router in given:
            for route in router.all:
                _add_operation(app, route, below)
                models += route.models
    with warnings.catch_warnings():
        # With deferred models pydantic warns about an annotation that FastAPI adds itself.
        warnings.simplefilter("ignore", UnsupportedFieldAttributeWarning)
        made = app.openapi()
    parts = made["components"]
    parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    describe_fields(parts["schemas"], models)
    parts["responses"] = {_ERROR.rpartition("/")[2]: _share_error_response(made["paths"])}
    made["security"] = [{"token": []}]
    made["paths"] = {_without_converters(path): operations for path, operations in made["paths"].items()}
    _drop_titles(made["paths"])
    _drop_titles(parts)
    return made


def _share_error_response(paths: dict[str, Any]) -> Any:
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


def _add_operation(app: FastAPI, route: Route, prefix: str) -> None:
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
        openapi_stub(route),
        methods=[route.method],
        status_code=route.status,
        response_model=None if is_media else route.answers,
        response_class=Response if is_media else JSONResponse,
        responses=answers,
        operation_id=route.operation_id,
        tags=[route.tag],
        openapi_extra=more,
    )


def _without_converters(path: str) -> str:
    """The path without Starlette's converters."""
    return re.sub(r"\{(\w+):\w+\}", r"{\1}", path)


def describe_fields(schemas: dict[str, Any], roots: Iterable[Any]) -> None:
    """Add to these schemas the docstrings that stand below fields in the models reachable from `roots`."""
    known: dict[str, list[type]] = {}
    for model in _models(roots):
        known.setdefault(model.__name__, []).append(model)
    for name, models in known.items():
        for model in models:
            # How pydantic names models that share a class name.
            long = f"{model.__module__}.{model.__qualname__}".replace(".", "__")
            schema = schemas.get(name if len(models) == 1 else long, {})
            for field, text in field_descriptions(model).items():
                if field in schema.get("properties", {}):
                    schema["properties"][field].setdefault("description", text)


def field_descriptions(model: type) -> dict[str, str]:
    """Docstrings by field, inherited ones included."""
    found: dict[str, str] = {}
    for one in reversed(_with_bases(model)):
        if one.__module__.startswith("runyard"):
            found.update(_own_descriptions(one))
    return found


def _with_bases(model: type) -> list[type]:
    """The class and its bases; a TypedDict has them in `__orig_bases__` and not in its MRO."""
    if not is_typeddict(model):
        return list(model.__mro__)
    above = [one for one in getattr(model, "__orig_bases__", ()) if is_typeddict(one)]
    return [model, *(other for one in above for other in _with_bases(one))]


def _own_descriptions(model: type) -> Iterator[tuple[str, str]]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(model))).body[0]
    assert isinstance(tree, ast.ClassDef)
    for above, below in zip(tree.body, tree.body[1:], strict=False):
        match above, below:
            case ast.AnnAssign(target=ast.Name(id=field)), ast.Expr(value=ast.Constant(value=str(text))):
                yield field, " ".join(text.split())


def _models(roots: Iterable[Any]) -> list[type]:
    """All models reachable from the roots, each once."""
    found: dict[type, None] = {}
    waiting = list(roots)
    while waiting:
        one = waiting.pop()
        waiting.extend(get_args(one))
        if isinstance(one, type) and one not in found and _is_model(one):
            found[one] = None
            waiting.extend(_annotations(one))
    return list(found)


def _is_model(one: type) -> bool:
    return is_dataclass(one) or is_typeddict(one) or issubclass(one, BaseModel)


def _annotations(model: type) -> list[Any]:
    if not is_typeddict(model) and issubclass(model, BaseModel):
        return [field.annotation for field in model.model_fields.values()]
    return list(get_type_hints(model).values())
