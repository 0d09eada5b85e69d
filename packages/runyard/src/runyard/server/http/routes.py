"""Declaration of routes: what each takes and answers. The application and the OpenAPI are made from them."""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, get_args

from fastapi import Request, params
from pydantic import BaseModel

from runyard.core.policy import Action
from runyard.server.http.bodies import model_reader, parsed_reader

Endpoint = Callable[..., Any]
E = TypeVar("E", bound=Endpoint)


@dataclass(frozen=True)
class Media:
    """A response or request body that is no JSON model."""

    type: str
    about: str
    example: str = ""


@dataclass(frozen=True)
class ParsedBody:
    """Annotation of a body that `read` checks and turns into a record; `model` only describes it in the OpenAPI."""

    model: type[BaseModel]
    read: Callable[[dict[str, Any]], Any]


OCTETS = Media("application/octet-stream", "Bytes as they are stored.")


@dataclass(frozen=True)
class Route:
    method: str
    path: str
    endpoint: Endpoint
    action: Action | None
    """Callers whose role never has it are refused before the body is read. None only for probes."""
    answers: Any
    """A model, a Media, or None where the response has no body."""
    takes: Media | None
    """Set for a request body that is no model."""
    status: int
    dependencies: Sequence[params.Depends] = ()
    also: Mapping[int, Any] = field(default_factory=dict)
    """Models of responses by other status codes, where they are no ErrorAnswer."""
    is_open: bool = False
    """Needs no token; the endpoint checks for itself what it needs."""
    tag: str = field(kw_only=True)
    """Its group in the OpenAPI, and the beginning of its operation id: stays when the file gets another name."""

    @property
    def operation_id(self) -> str:
        return f"{self.tag}_{self.endpoint.__name__}"

    @property
    def models(self) -> list[Any]:
        """Models of its body and its responses."""
        parameters = inspect.signature(self.endpoint).parameters.values()
        bodies = [body_model(one.annotation) for one in parameters]
        answers = [] if isinstance(self.answers, Media) else [self.answers]
        return [*filter(None, bodies), *answers, *self.also.values()]


@dataclass(frozen=True)
class Routes:
    """Collects the routes of one tag."""

    prefix: str = ""
    dependencies: Sequence[params.Depends] = ()
    tag: str = field(kw_only=True)
    all: list[Route] = field(default_factory=list)

    def get(self, path: str, action: Action | None, answers: Any, **more: Any) -> Callable[[E], E]:
        return self._of("GET", path, action, answers, **more)

    def head(self, path: str, action: Action, answers: Any, **more: Any) -> Callable[[E], E]:
        return self._of("HEAD", path, action, answers, **more)

    def post(self, path: str, action: Action, answers: Any, **more: Any) -> Callable[[E], E]:
        return self._of("POST", path, action, answers, **more)

    def put(self, path: str, action: Action, answers: Any, **more: Any) -> Callable[[E], E]:
        return self._of("PUT", path, action, answers, **more)

    def patch(self, path: str, action: Action, answers: Any, **more: Any) -> Callable[[E], E]:
        return self._of("PATCH", path, action, answers, **more)

    def delete(self, path: str, action: Action, answers: Any = None, **more: Any) -> Callable[[E], E]:
        return self._of("DELETE", path, action, answers, **more)

    def _of(
        self,
        method: str,
        path: str,
        action: Action | None,
        answers: Any,
        *,
        takes: Media | None = None,
        status: int | None = None,
        dependencies: Sequence[params.Depends] = (),
        also: Mapping[int, Any] | None = None,
        is_open: bool = False,
    ) -> Callable[[E], E]:
        code = status or (204 if answers is None else 200)

        def add(endpoint: E) -> E:
            needs = [*self.dependencies, *dependencies]
            self.all.append(
                Route(
                    method,
                    self.prefix + path,
                    endpoint,
                    action,
                    answers,
                    takes,
                    code,
                    needs,
                    also or {},
                    is_open,
                    tag=self.tag,
                )
            )
            return endpoint

        return add


def body_reader(annotation: Any) -> Callable[[Request], Awaitable[Any]] | None:
    """Function that reads the body which a parameter with this annotation takes; None where it takes none."""
    model, by = body_model(annotation), _parsed_body(annotation)
    if model is None:
        return None
    return model_reader(model) if by is None else parsed_reader(by.read)


def openapi_stub(route: Route) -> Endpoint:
    """Stub with the endpoint's signature and docstring, from which FastAPI makes the OpenAPI operation."""

    def stub() -> None: ...

    stub.__name__, stub.__doc__ = route.endpoint.__name__, route.endpoint.__doc__
    known = inspect.signature(route.endpoint)
    parameters = [
        one.replace(annotation=body_model(one.annotation) or one.annotation) for one in known.parameters.values()
    ]
    stub.__signature__ = known.replace(parameters=parameters)  # type: ignore[attr-defined]
    return stub


def body_model(annotation: Any) -> type[BaseModel] | None:
    if by := _parsed_body(annotation):
        return by.model
    found = get_args(annotation)[0] if get_args(annotation) else annotation
    return found if isinstance(found, type) and issubclass(found, BaseModel) else None


def _parsed_body(annotation: Any) -> ParsedBody | None:
    return next((one for one in getattr(annotation, "__metadata__", ()) if isinstance(one, ParsedBody)), None)
