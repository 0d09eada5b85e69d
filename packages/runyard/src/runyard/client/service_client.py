import http.client
import itertools
import json
import os
import select
import ssl
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import IO

from runyard.client.address import ServiceAddress, api_path, service_address
from runyard.client.retry import ServiceUnavailable, connection_error, response_error
from runyard.core.errors import InvalidArgument, Json

Headers = dict[str, str]
_REQUEST_ID = "X-Request-Id"
_BLOCK_BYTES = 1 << 20
_NOT_SATISFIABLE = 416
_REQUEST_ERRORS = (OSError, http.client.HTTPException, ValueError)
_CONNECTION_CLOSED = (BrokenPipeError, ConnectionResetError, ssl.SSLEOFError)
_NONE: Headers = {}
_BYTES: Headers = {"Content-Type": "application/octet-stream"}
_JSON: Headers = {"Content-Type": "application/json"}


class StreamedResponse:
    """A response whose body is read as it arrives."""

    def __init__(self, response: http.client.HTTPResponse, fail: Callable[[Exception], Exception]) -> None:
        self._response, self._fail = response, fail
        self.status = response.status

    def read(self, size: int | None = None) -> bytes:
        """The next bytes, b"" at the end. Raises ServiceUnavailable if the connection breaks before the end."""
        try:
            piece = self._response.read(size)
            if not piece and self._response.length:
                raise ConnectionError(f"the answer ended {self._response.length} bytes early")
            return piece
        except _REQUEST_ERRORS as problem:
            raise self._fail(problem) from problem


Body = bytes | Iterable[bytes] | IO[bytes] | None


class ServiceConnection:
    """One connection to the service, for one request at a time and only in the process that opened it."""

    __slots__ = ("_common", "_http", "_poll", "_process", "_response")

    def __init__(self, http: HTTPConnection) -> None:
        """Connects. Raises OSError."""
        self._http, self._process = http, os.getpid()
        self._poll: select.poll | None = None
        self._response: HTTPResponse | None = None
        self._common = f"Host: {_host_of(http)}\r\nAccept-Encoding: identity\r\n"
        http.connect()

    def send(self, method: str, target: str, body: Body, headers: Mapping[str, str]) -> None:
        """Send a request. `headers` must have the Content-Length of a body that is not bytes."""
        lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        if isinstance(body, bytes):
            lines += f"Content-Length: {len(body)}\r\n"
        head = f"{method} {target} HTTP/1.1\r\n{self._common}{lines}\r\n".encode("latin-1")
        if isinstance(body, bytes) and len(body) <= _JOINED_BYTES:
            self._http.send(head + body)
        else:
            self._http.send(head)
            if body is not None:
                self._http.send(body)

    def receive(self, method: str) -> HTTPResponse:
        """Read the head of the response; the caller reads its body."""
        self._response = HTTPResponse(self._http.sock, method=method)
        self._response.begin()
        return self._response

    def is_usable(self) -> bool:
        """True if a request can be sent on it. An idle connection with data to read was closed by the service."""
        if self._http.sock is None or self._process != os.getpid():
            return False
        if self._poll is None:
            self._poll = select.poll()
            self._poll.register(self._http.sock, select.POLLIN)
        return not self._poll.poll(0)

    def close(self) -> None:
        self._http.close()
        if self._response is not None:
            self._response.close()


class ServiceClient:
    """Requests to one service with one token, over kept-alive connections. Safe to share between threads.

    Paths are below `/api/v1` and begin with a slash. Each method raises the RunyardError of the response, or
    ServiceUnavailable if another try may succeed; see `retry_while_unavailable`. A request on a kept connection that
    the service has closed is sent again, so use all methods except `open` and `upload_open` only for requests that may
    arrive twice.
    """

    def __init__(
        self,
        where: Path | ServiceAddress,
        token: str,
        *,
        silence_seconds: float = 30.0,
        waits_for: Iterable[int] = (),
        translate: Callable[[Exception], Exception] = lambda error: error,
        connections: "ConnectionPool | None" = None,
    ) -> None:
        """`where` may be a home: its service.json is read for each new connection, so a service that restarted on
        another address is found. A status in `waits_for` raises ServiceUnavailable. `translate` may return another
        exception to raise. `connections`: idle connections to the same place, which outlive this client."""
        self._where, self.token, self._silence_seconds = where, token, silence_seconds
        self._waits_for, self._translate = frozenset(waits_for), translate
        if not (token.isascii() and token.isprintable()):
            raise InvalidArgument("The token holds a line end or another character that no token has.")
        self._idle, self._authorization = connections or ConnectionPool(), f"Bearer {token}"
        self._name, self._numbers = os.urandom(4).hex(), itertools.count(1)

    def get(self, path: str) -> Json:
        return decoded(self._request("GET", path, None, _NONE))

    def post(self, path: str, body: Json | None = None) -> Json:
        content = b"" if body is None else json.dumps(body).encode()
        return decoded(self._request("POST", path, content, _JSON))

    def delete(self, path: str) -> None:
        self._request("DELETE", path, None, _NONE)

    def read(self, path: str) -> bytes:
        """Content of the response as bytes."""
        return self._request("GET", path, None, _NONE)

    def post_bytes(self, path: str, content: bytes) -> bytes:
        return self._request("POST", path, content, _BYTES)

    def upload_open(self, path: str, content: IO[bytes], size: int) -> None:
        """PUT the next `size` bytes of an open file."""
        self._request("PUT", path, content, {**_BYTES, "Content-Length": str(size)})

    def download(self, path: str, target: Path) -> None:
        """Write the response to a file as it arrives. Raises OSError if the file cannot be written."""
        with self.open(path) as answer, target.open("wb") as file:
            while piece := answer.read(_BLOCK_BYTES):
                file.write(piece)

    @contextmanager
    def open(
        self, path: str, method: str = "GET", body: Body = None, headers: Mapping[str, str] | None = None
    ) -> Iterator[StreamedResponse]:
        """Send once and return the response to be read as it arrives. The caller handles status 416, since it knows the
        range. A connection whose response is not read to its end is closed."""
        sent = self._with_id({**(_NONE if body is None else _BYTES), **(headers or {})})
        connection = self._idle.take() or self._connect()
        is_reusable = False
        try:
            response = self._open_response(connection, method, api_path(path), body, sent)
            yield StreamedResponse(response, lambda problem: self._connection_error(problem, sent))
            is_reusable = response.isclosed() and not response.will_close
        finally:
            if is_reusable:
                self._idle.put(connection)
            else:
                connection.close()

    def close(self) -> None:
        """Close the idle connections; a later request makes a new one."""
        self._idle.close()

    def _request(self, method: str, path: str, body: bytes | IO[bytes] | None, headers: Headers) -> bytes:
        sent, target = self._with_id(headers), api_path(path)
        connection = self._idle.take()
        if connection is not None:
            try:
                return self._exchange(connection, method, target, body, sent)
            except _REQUEST_ERRORS as problem:
                connection.close()
                if isinstance(problem, TimeoutError) or not (body is None or isinstance(body, bytes)):
                    raise self._connection_error(problem, sent) from problem
            # Retry on a new connection: the service may have closed the idle one just before this request.
        connection = self._connect()
        try:
            return self._exchange(connection, method, target, body, sent)
        except _REQUEST_ERRORS as problem:
            connection.close()
            raise self._connection_error(problem, sent) from problem

    def _exchange(self, connection: ServiceConnection, method: str, target: str, body: Body, headers: Headers) -> bytes:
        response = self._send(connection, method, target, body, headers)
        content = response.read()
        if response.will_close:
            connection.close()
        else:
            self._idle.put(connection)
        if response.status >= 400:
            raise self._response_error(response.status, content, headers)
        return content

    def _open_response(
        self, connection: ServiceConnection, method: str, target: str, body: Body, headers: Headers
    ) -> http.client.HTTPResponse:
        try:
            response = self._send(connection, method, target, body, headers)
            if response.status < 400 or response.status == _NOT_SATISFIABLE:
                return response
            content = response.read()
        except _REQUEST_ERRORS as problem:
            raise self._connection_error(problem, headers) from problem
        raise self._response_error(response.status, content, headers)

    def _send(
        self, connection: ServiceConnection, method: str, target: str, body: Body, headers: Headers
    ) -> http.client.HTTPResponse:
        try:
            connection.send(method, target, body, headers)
        except _CONNECTION_CLOSED:
            self._raise_early_refusal(connection, method, headers)
            raise
        return connection.receive(method)

    def _raise_early_refusal(self, connection: ServiceConnection, method: str, headers: Headers) -> None:
        """Raise the error that the service sent before it had read the whole body."""
        with suppress(OSError, http.client.HTTPException), closing(connection):
            response = connection.receive(method)
            if response.status >= 400:
                raise self._response_error(response.status, response.read(), headers)

    def _connect(self) -> ServiceConnection:
        is_fixed = isinstance(self._where, ServiceAddress)
        try:
            address = self._where if isinstance(self._where, ServiceAddress) else service_address(self._where)
            return ServiceConnection(address.connection(self._silence_seconds))
        except _REQUEST_ERRORS as problem:
            raise self._translate(connection_error(problem)) from problem
        except InvalidArgument as problem:
            if is_fixed:
                raise
            # service.json may be corrected at any moment.
            raise self._translate(ServiceUnavailable(str(problem))) from problem

    def _with_id(self, headers: Headers) -> Headers:
        """Add the token, and a request id for the service's access log; a retry has the same id."""
        request_id = f"{self._name}-{next(self._numbers):x}"
        return {**headers, "Authorization": self._authorization, _REQUEST_ID: request_id}

    def _response_error(self, status: int, content: bytes, headers: Headers) -> Exception:
        return self._translate(response_error(status, content, headers[_REQUEST_ID], self._waits_for))

    def _connection_error(self, problem: Exception, headers: Headers) -> Exception:
        return self._translate(connection_error(problem, headers[_REQUEST_ID]))


def byte_range(start: int, length: int | None = None) -> dict[str, str]:
    """Range header for `length` bytes from `start` on; for all the rest if `length` is None."""
    return {"Range": f"bytes={start}-{'' if length is None else start + length - 1}"}


def decoded(content: bytes) -> Json:
    """Decode JSON. Raises ServiceUnavailable for anything else: a proxy may answer instead of the service."""
    try:
        parsed: Json = json.loads(content) if content else {}
        return parsed
    except ValueError as problem:
        raise ServiceUnavailable(f"the service answered what is not JSON: {content[:300]!r}") from problem


def quoted(part: str) -> str:
    """Percent-encode a name or path for an address; slashes stay."""
    return urllib.parse.quote(part, safe="/")


_MOST_IDLE = 16
_JOINED_BYTES = 1 << 16
"""A body up to this size is sent together with its head: two packets cost the service two reads."""


class ConnectionPool:
    """Idle connections for later requests. Threads share them without a lock: a list's pop and append are atomic. A
    forked child drops those of its parent."""

    def __init__(self) -> None:
        self._idle: list[ServiceConnection] = []

    def take(self) -> ServiceConnection | None:
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread took the last one
                return None
            if connection.is_usable():
                return connection
            connection.close()
        return None

    def put(self, connection: ServiceConnection) -> None:
        if len(self._idle) < _MOST_IDLE:
            self._idle.append(connection)
        else:
            connection.close()

    def close(self) -> None:
        while (connection := self.take()) is not None:
            connection.close()


def _host_of(http: HTTPConnection) -> str:
    name = http.host if http.host.isascii() else http.host.encode("idna").decode("ascii")
    name = f"[{name}]" if ":" in name else name
    return name if http.port == http.default_port else f"{name}:{http.port}"
