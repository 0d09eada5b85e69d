import os
import select
from collections.abc import Iterable, Mapping
from http.client import HTTPConnection, HTTPResponse
from typing import IO

Body = bytes | Iterable[bytes] | IO[bytes] | None
_MOST_IDLE = 16
_JOINED_BYTES = 1 << 16
"""A body up to this size is sent together with its head: two packets cost the service two reads."""


class Connection:
    """One connection to the service, for one request at a time and only in the process that opened it."""

    __slots__ = ("_common", "_http", "_poll", "_process", "_response")

    def __init__(self, http: HTTPConnection, token: str) -> None:
        """Connects. Raises OSError."""
        self._http, self._process = http, os.getpid()
        self._poll: select.poll | None = None
        self._response: HTTPResponse | None = None
        self._common = f"Host: {_host_of(http)}\r\nAccept-Encoding: identity\r\nAuthorization: Bearer {token}\r\n"
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


class IdleConnections:
    """Idle connections for later requests. Threads share them without a lock: a list's pop and append are atomic. A
    forked child drops those of its parent."""

    def __init__(self) -> None:
        self._idle: list[Connection] = []

    def take(self) -> Connection | None:
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread took the last one
                return None
            if connection.is_usable():
                return connection
            connection.close()
        return None

    def put(self, connection: Connection) -> None:
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
