"""Where connections come in, from this machine and from others. Whoever connects may be slow, silent or hostile."""

import asyncio
import resource
import socket
import ssl
from collections import Counter
from dataclasses import dataclass
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

FROM_OUTSIDE = "runyard.from_outside"
_TOO_MANY = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_FAREWELL_SECONDS = 1.0
_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_MOST_CONNECTIONS = 4000
_LEAST_BYTES_PER_SECOND = 1024
"""Least pace of a body that goes on although its request has been answered."""


@dataclass(frozen=True)
class Limits:
    """What a connection may cost."""

    handshake_seconds: float = 15.0
    head_seconds: float = 20.0
    """In which the head of a request must have come, from the first moment of the connection or of the request."""
    silence_seconds: float = 60.0
    """A body of which nothing comes, or an answer of which nothing is taken, for so long is given up."""
    kept_seconds: int = 75
    head_bytes: int = 64 * 1024
    connections: int = _MOST_CONNECTIONS
    share: float = 0.25
    """Of the connections, which one address may have."""


def limits_here(*, share: float = 0.25) -> Limits:
    """Half of the files that this process may open are left to everything else."""
    return Limits(connections=min(_MOST_CONNECTIONS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2), share=share)


@dataclass(frozen=True)
class OpenListener:
    socket: socket.socket
    context: ssl.SSLContext | None = None
    """None where nothing is encrypted."""
    limits: Limits = Limits()
    is_outside: bool = True
    """Whether other machines come in here."""
    proxies: frozenset[str] = frozenset()
    """Addresses that have no share of their own: behind them are many."""

    async def start(self, app: ASGIApp, options: dict[str, Any], state: ServerState) -> asyncio.Server:
        """Answer requests by the app, in the running loop. The connections are added to those of `state`."""
        kept = self.limits.kept_seconds
        taken = _MarkedApp(app) if self.is_outside else app
        config = uvicorn.Config(taken, **{**options, "http": BoundedHttp, "timeout_keep_alive": kept})
        config.load()
        crowd: Counter[str] = Counter()

        def protocol() -> asyncio.Protocol:
            return BoundedHttp(config, state, {}, limits=self.limits, crowd=crowd, proxies=self.proxies)

        return await asyncio.get_running_loop().create_server(
            protocol,
            sock=self.socket,
            ssl=self.context,
            backlog=config.backlog,
            ssl_handshake_timeout=self.limits.handshake_seconds if self.context else None,
        )


class _MarkedApp:
    """Requests of this listener can be told from those of this machine's own clients."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[FROM_OUTSIDE] = True
        await self._app(scope, receive, send)


class BoundedHttp(HttpToolsProtocol):
    """HTTP/1.1 within limits: a connection that breaks one is closed. `crowd` counts connections by address."""

    def __init__(
        self, *given: Any, limits: Limits, crowd: Counter[str], proxies: frozenset[str] = frozenset(), **more: Any
    ) -> None:
        super().__init__(*given, **more)
        self._proxies = proxies
        self._limits, self._crowd, self._address = limits, crowd, ""
        self._is_in_head, self._head_bytes = True, 0
        self._came, self._was_owing = 0, False
        self._left = 0
        self._head_bell: asyncio.TimerHandle | None = None
        self._look_bell: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._address = self.client[0] if self.client else "?"
        self._crowd[self._address] += 1
        most = self._limits.connections
        share = 1.0 if self._address in self._proxies else self._limits.share
        if self._crowd[self._address] > most * share or self._crowd.total() > most:
            self._refuse(_TOO_MANY)
            return
        self._await_head()
        self._look_later()

    def connection_lost(self, exc: Exception | None) -> None:
        self._crowd[self._address] -= 1
        if not self._crowd[self._address]:
            del self._crowd[self._address]
        self._silence()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._came += len(data)
        self._head_bytes += len(data)
        super().data_received(data)
        if self._is_in_head and self._head_bytes > self._limits.head_bytes:
            self._refuse(_TOO_LARGE)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_bytes = 0 if not self._is_in_head else self._head_bytes
        self._is_in_head = True
        self._await_head()

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        if self._head_bell is not None:
            self._head_bell.cancel()
        super().on_headers_complete()

    def _await_head(self) -> None:
        if self._head_bell is not None:
            self._head_bell.cancel()
        self._head_bell = self.loop.call_later(self._limits.head_seconds, self._end_if_in_head)

    def _end_if_in_head(self) -> None:
        if self.flow.read_paused:  # one of several requests sent at once: it waits for us, not for the client
            self._await_head()
        elif self._is_in_head:
            self.transport.abort()

    def _look_later(self) -> None:
        self._look_bell = self.loop.call_later(self._limits.silence_seconds / 2, self._look)

    def _look(self) -> None:
        """End a client whose turn it was, to send or to take, at the last look and now, and who did neither."""
        cycle, left = self.cycle, self.transport.get_write_buffer_size()
        is_sending = cycle is not None and cycle.more_body and not self.flow.read_paused
        # Routes that take a body see to its pace. Nobody takes that of an answered request.
        pace = _LEAST_BYTES_PER_SECOND if cycle is not None and cycle.response_complete else 0
        least = max(1.0, pace * self._limits.silence_seconds / 2)
        is_owing = (is_sending and self._came < least) or (left > 0 and left == self._left)
        if is_owing and self._was_owing:
            self.transport.abort()
            return
        self._came, self._was_owing, self._left = 0, is_owing, left
        self._look_later()

    def _refuse(self, answer: bytes) -> None:
        self._silence()
        self.transport.write(answer)
        self.transport.close()
        # Under TLS a close waits for the client's own, and reads on meanwhile, whatever it sends.
        self.loop.call_later(_FAREWELL_SECONDS, self.transport.abort)

    def _silence(self) -> None:
        for bell in (self._head_bell, self._look_bell):
            if bell is not None:
                bell.cancel()
