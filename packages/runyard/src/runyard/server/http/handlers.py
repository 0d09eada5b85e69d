"""Handlers of requests: each calls the endpoint of one declared route with what its signature asks for."""

from collections.abc import Callable, Container, Mapping, Sequence
from functools import cached_property, partial
from inspect import Parameter, iscoroutinefunction, signature
from typing import Annotated, Any, get_args, get_origin

from fastapi import params
from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import compile_path

from runyard.server.http.bodies import validation_error
from runyard.server.http.routes import Route, body_reader
from runyard.server.http.thread_limits import ThreadLimits
from runyard.server.http.worker_threads import run_in_thread

Dependency = Callable[[Request], Any]
"""Function of the request, which must not block; or a coroutine function."""
_NO_QUERY = QueryParams()


class RouteHandler:
    """Answers the requests of one route, by what FastAPI would do with the same declaration, and nothing else of it.

    FastAPI solves dependencies of dependencies, headers, cookies, forms and generators anew for each request, which
    took a third of the event loop's time. Our endpoints take only the request, functions of it, a body, and parameters
    of the path and the query. FastAPI still makes the OpenAPI from the same declarations.
    """

    def __init__(
        self,
        route: Route,
        prefix: str,
        *,
        first: Sequence[Dependency] = (),
        limits: ThreadLimits | None = None,
    ) -> None:
        """`first` is called before all else; `limits` are those of the threads in which a blocking endpoint runs."""
        self.method, self.path = route.method, prefix + route.path
        self.pattern = compile_path(self.path)[0]
        self._endpoint, self._limits = route.endpoint, limits
        self._is_blocking = not iscoroutinefunction(route.endpoint)
        self._first = [(one, iscoroutinefunction(one)) for one in (*first, *map(_function_of, route.dependencies))]

    async def respond(self, request: Request) -> Response:
        """Call the endpoint. Raises InvalidArgument that names invalid parameters, and what dependencies raise."""
        given = await self._arguments(request)
        if not self._is_blocking:
            return await self._endpoint(**given)  # type: ignore[no-any-return]
        if self._limits is not None:
            return await self._limits.of(request.state.caller).run(partial(self._endpoint, **given))
        return await run_in_thread(self._endpoint, **given)

    async def _arguments(self, request: Request) -> dict[str, Any]:
        for depends, is_async in self._first:
            if is_async:
                await depends(request)
            else:
                depends(request)
        given: dict[str, Any] = {}
        for name, depends, is_async in self._signature.dependencies:
            given[name] = await depends(request) if is_async else depends(request)
        problems: list[Any] = []
        for one in self._signature.path:
            one.read(request.path_params, given, problems)
        if self._signature.query:
            query = request.query_params if request.scope["query_string"] else _NO_QUERY
            for one in self._signature.query:
                one.read(query, given, problems)
        if problems:
            raise validation_error(problems)
        return given

    @cached_property
    def _signature(self) -> "_Signature":
        """Made at the first request, so that the service starts quickly."""
        return _Signature(self._endpoint, self.pattern.groupindex)


class _Signature:
    """Arguments of an endpoint: functions of the request, and parameters of the path and the query."""

    def __init__(self, endpoint: Callable[..., Any], in_path: Container[str]) -> None:
        self.dependencies: list[tuple[str, Dependency, bool]] = []
        self.path: list[_Parameter] = []
        self.query: list[_Parameter] = []
        for one in signature(endpoint).parameters.values():
            depends = _dependency(one.annotation)
            if depends is not None:
                self.dependencies.append((one.name, depends, iscoroutinefunction(depends)))
            elif one.name in in_path:
                self.path.append(_Parameter(one))
            else:
                self.query.append(_Parameter(one))


class _Parameter:
    """One parameter of the path or the query, of the type that the endpoint declares."""

    def __init__(self, declared: Parameter) -> None:
        is_annotated = get_origin(declared.annotation) is Annotated
        kind, *more = get_args(declared.annotation) if is_annotated else (declared.annotation,)
        info = next((one for one in more if isinstance(one, FieldInfo)), None)
        self._name, self._default = declared.name, declared.default
        self._alias = (info.alias if info else None) or declared.name
        self._is_many = get_origin(kind) is Sequence
        self._validate = TypeAdapter(declared.annotation).validate_python

    def read(self, values: Mapping[str, str], given: dict[str, Any], problems: list[Any]) -> None:
        """Add its value to `given`, or what is wrong with it to `problems`."""
        value = self._value(values)
        if value is not None:
            try:
                given[self._name] = self._validate(value)
            except ValidationError as problem:
                found = problem.errors(include_url=False)
                problems.extend({**one, "loc": (self._alias, *one["loc"])} for one in found)
        elif self._default is Parameter.empty:
            problems.append({"type": "missing", "loc": (self._alias,)})
        else:
            given[self._name] = self._default

    def _value(self, values: Mapping[str, str]) -> str | list[str] | None:
        if self._is_many and isinstance(values, QueryParams):
            return values.getlist(self._alias) or None
        return values.get(self._alias)


def _dependency(annotation: Any) -> Dependency | None:
    """The function that finds the value of a parameter with this annotation; None for those of path and query."""
    if annotation is Request:
        return _itself
    depends = next((one for one in get_args(annotation) if isinstance(one, params.Depends)), None)
    return body_reader(annotation) if depends is None else _function_of(depends)


def _itself(request: Request) -> Request:
    return request


def _function_of(depends: params.Depends) -> Dependency:
    assert depends.dependency is not None, "A dependency of ours is always given as Depends(function)."
    return depends.dependency
