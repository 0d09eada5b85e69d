"""Handlers of routes: what endpoints are called with, and which requests they never see."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import pytest
from fastapi import Depends, Query, Request
from starlette.responses import Response

from runyard.core.errors import InvalidArgument, Unauthorized
from runyard.core.policy import Action
from runyard.core.principal import OWNER
from runyard.server.http.application import Application
from runyard.server.http.forwarded import ForwardedHeaders
from runyard.server.http.handlers import RouteHandler
from runyard.server.http.host_check import HostCheck
from runyard.server.http.parameters import PATH, LogOffsets, QueryInt
from runyard.server.http.routes import Routes

Asked = tuple[int, dict[str, str], bytes]


def application(routes: Routes, *, first: Sequence[Callable[[Request], Any]] = ()) -> Application:
    return Application(
        [RouteHandler(route, "", first=first) for route in routes.all],
        hosts=HostCheck(frozenset({"here"})),
        forwarded=ForwardedHeaders(frozenset()),
        answered=lambda answered: None,
    )


def ask(app: Application, method: str, path: str, query: str = "") -> Asked:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [(b"host", b"here")],
        "state": {},
        "server": ("127.0.0.1", 1),
        "scheme": "http",
        "client": None,
        "root_path": "",
    }
    asyncio.run(app(scope, receive, send))
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], headers, b"".join(one.get("body", b"") for one in sent[1:])


def shown(*values: Any) -> Response:
    return Response(repr(values))


@pytest.fixture
def routes() -> Routes:
    made = Routes(tag="tests")

    @made.get("/things/{name}", Action.READ_RUN, None)
    def thing(
        name: str,
        limit: QueryInt = 5,
        before: QueryInt | None = None,
        flag: bool = False,
        words: Annotated[Sequence[str], Query()] = (),
        offsets: LogOffsets = (),
    ) -> Response:
        return shown(name, limit, before, flag, list(words), list(offsets))

    @made.get(f"/numbers/{{number}}/{PATH}", Action.READ_RUN, None)
    async def number(number: int, path: str, needed: float) -> Response:
        return shown(number, path, needed)

    @made.delete("/things/{name}", Action.READ_RUN, None)
    def remove(name: str) -> Response:
        raise OSError(5, "secret path")

    return made


@pytest.mark.parametrize(
    ("path", "query", "values"),
    [
        ("/things/a", "", ("a", 5, None, False, [], [])),
        ("/things/a", "limit=7&before=-1&flag=1&limit=8", ("a", 8, -1, True, [], [])),
        ("/things/a", "words=x&words=&from=0~log&offsets=1~log&other=3", ("a", 5, None, False, ["x", ""], ["0~log"])),
        ("/numbers/12/a/b\nc", "needed=0.5", (12, "a/b\nc", 0.5)),
    ],
)
def test_endpoints_get_their_parameters(routes, path, query, values):
    assert ask(application(routes), "GET", path, query)[::2] == (200, repr(values).encode())


@pytest.mark.parametrize(
    ("path", "query", "problem"),
    [
        (
            "/numbers/x/y",
            "needed=z",
            b"number: must be a valid integer, unable to parse string as an integer, got 'x'.",
        ),
        ("/numbers/1/y", "", b"needed: is missing."),
        ("/things/a", "limit=", b"limit: must be a valid integer, unable to parse string as an integer, got ''."),
        ("/things/a", "limit=1e19", b"limit: must be"),
        ("/things/a", f"before={10**18}", b"before: must be less than or equal to 999999999999999999"),
    ],
)
def test_invalid_parameters_are_named(routes, path, query, problem):
    status, _, body = ask(application(routes), "GET", path, query)
    assert status == 400
    assert problem in body
    assert body.count(b'"path"') == (2 if query == "needed=z" else 1)


def test_dependencies_come_first_and_in_order():
    order: list[str] = []

    async def first(request: Request) -> None:
        order.append("first")
        request.state.caller = OWNER

    async def second(request: Request) -> None:
        order.append(f"second of {request.state.caller.role}")

    async def value(request: Request) -> int:
        order.append("value")
        return 3

    made = Routes(tag="tests", dependencies=[Depends(second)])

    @made.get("/", Action.READ_RUN, None)
    def endpoint(request: Request, value: Annotated[int, Depends(value)], limit: int = 1) -> Response:
        return shown(request.method, value, limit)

    app = application(made, first=[first])
    assert ask(app, "GET", "/")[2] == b"('GET', 3, 1)"
    assert order == ["first", "second of owner", "value"]
    assert ask(app, "GET", "/", "limit=x")[0] == 400


def test_a_refused_caller_gets_no_further():
    def refuse(request: Request) -> None:
        raise Unauthorized("Not you.")

    made = Routes(tag="tests")

    @made.get("/", Action.READ_RUN, None)
    def endpoint(limit: int) -> Response:
        raise AssertionError

    assert ask(application(made, first=[refuse]), "GET", "/", "limit=x")[0] == 401


def test_other_methods_and_paths(routes):
    app = application(routes)
    status, headers, _ = ask(app, "POST", "/things/a")
    assert (status, headers["allow"]) == (405, "GET")
    status, headers, _ = ask(app, "POST", "/things/a/", "limit=1")
    assert (status, headers["location"]) == (307, "http://here/things/a?limit=1")
    assert ask(app, "GET", "/nothing")[0] == 404
    assert ask(app, "GET", "/")[0] == 404


def test_an_unexpected_exception_tells_only_its_class(routes):
    status, headers, body = ask(application(routes), "DELETE", "/things/a")
    assert (status, b"secret" in body, b"OSError" in body) == (500, False, True)
    assert {"x-request-id", "x-runyard-wire", "x-runyard-api", "x-runyard-version"} <= set(headers)


def test_a_failure_after_the_response_began_sends_no_second_one():
    made = Routes(tag="tests")

    class Broken(Response):
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            raise InvalidArgument("Too late.")

    @made.get("/", Action.READ_RUN, None)
    async def endpoint() -> Response:
        return Broken()

    assert ask(application(made), "GET", "/")[::2] == (200, b"")
