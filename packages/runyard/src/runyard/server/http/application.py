"""The ASGI application: from a request to the handler of its route, and from an exception to an error response."""

from collections.abc import Awaitable, Callable, Sequence

from starlette.datastructures import URL, State
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import Message, Receive, Scope, Send

from runyard.core.version import API, VERSION, WIRE
from runyard.process_logs.lines import current_request
from runyard.server.access_log import CLIENT_CLOSED_REQUEST, AnsweredRequest, LoggedRequest, RequestIds
from runyard.server.http import error_responses
from runyard.server.http.forwarded import ForwardedHeaders
from runyard.server.http.handlers import RouteHandler
from runyard.server.http.host_check import HostCheck

_VERSIONS = (
    (b"x-runyard-wire", str(WIRE).encode()),
    (b"x-runyard-api", str(API).encode()),
    (b"x-runyard-version", VERSION.encode()),
)


class Application:
    """Answers every request. Calls `answered` once for each, after the last byte was sent or the client has
    disconnected. Endpoints find what they share in `state`."""

    def __init__(
        self,
        handlers: Sequence[RouteHandler],
        *,
        hosts: HostCheck,
        forwarded: ForwardedHeaders,
        answered: Callable[[AnsweredRequest], None],
    ) -> None:
        self.state = State()
        self._routes = RouteTable(handlers)
        self._hosts, self._forwarded, self._answered = hosts, forwarded, answered
        self._request_ids = RequestIds()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = self
        logged = LoggedRequest(self._request_ids.id_of(scope), scope)
        current_request.set(logged)
        sending = ResponseSender(send, logged.request_id)
        try:
            await self._answer(Request(scope, receive), sending)
        finally:
            self._answered(logged.answered(sending.status or CLIENT_CLOSED_REQUEST))

    async def _answer(self, request: Request, send: "ResponseSender") -> None:
        try:
            response = await self._response(request)
            await response(request.scope, request.receive, send)
        except Exception as problem:  # outermost handler: the client must get a response
            if send.status is None:
                await error_responses.response_to(request, problem)(request.scope, request.receive, send)
            else:
                error_responses.unexpected_error(request.method, problem)

    async def _response(self, request: Request) -> Response:
        self._forwarded.apply(request.scope)
        refusal = self._hosts.refusal(request.scope)
        if refusal is not None:
            return error_responses.error_response(refusal)
        handler = self._routes.find(request.scope)
        return self._routes.redirect(request.scope) if handler is None else await handler.respond(request)


class ResponseSender:
    """ASGI `send` of one request: adds the headers that every response has, and remembers its status."""

    __slots__ = ("_request_id", "_send", "status")

    def __init__(self, send: Send, request_id: str) -> None:
        self._send, self._request_id = send, request_id
        self.status: int | None = None
        """None until the response has begun."""

    def __call__(self, message: Message) -> Awaitable[None]:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            request_id = (b"x-request-id", self._request_id.encode("ascii"))
            message["headers"] = [*message.get("headers", ()), *_VERSIONS, request_id]
        return self._send(message)


class RouteTable:
    """Finds the handler of a request: the first whose method and path match."""

    def __init__(self, handlers: Sequence[RouteHandler]) -> None:
        self._all = handlers
        self._by_method: dict[str, list[RouteHandler]] = {}
        for handler in handlers:
            self._by_method.setdefault(handler.method, []).append(handler)

    def find(self, scope: Scope) -> RouteHandler | None:
        """The handler; sets `route` and `path_params` of the scope. None where no route has this path.

        Raises HTTPException 405 where routes of other methods have it.
        """
        handler = _first_match(self._by_method.get(scope["method"], ()), scope)
        if handler is None and (other := _first_match(self._all, scope)):
            raise HTTPException(405, headers={"Allow": other.method})
        return handler

    def redirect(self, scope: Scope) -> Response:
        """Redirect to the same path with or without the slash at its end. Raises HTTPException 404 without such."""
        path = scope["path"]
        other = {**scope, "path": path.rstrip("/") if path.endswith("/") else path + "/"}
        if path == "/" or _first_match(self._all, other) is None:
            raise HTTPException(404)
        return RedirectResponse(str(URL(scope=other)))


def _first_match(handlers: Sequence[RouteHandler], scope: Scope) -> RouteHandler | None:
    path = scope["path"]
    for handler in handlers:
        if found := handler.pattern.match(path):
            scope["route"], scope["path_params"] = handler, found.groupdict()
            return handler
    return None
