"""HTTP listener with limits per connection and per address: clients may be slow, silent or hostile."""

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

REMOTE_REQUEST = "runyard.from_outside"
_TOO_MANY = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_CLOSE_SECONDS = 1.0
_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_MAX_CONNECTIONS = 4000
_MIN_BYTES_PER_SECOND = 1024
"""Minimum rate of a body that the client still sends after its request was answered."""


@dataclass(frozen=True)
class ConnectionLimits:
    """Timeouts and sizes of connections; breaking one closes the connection."""

    handshake_seconds: float = 15.0
    head_seconds: float = 20.0
    """Within which the whole request head must arrive."""
    silence_seconds: float = 60.0
    """After which a connection is closed that sends nothing of its body, or takes nothing of the response."""
    kept_seconds: int = 75
    head_bytes: int = 64 * 1024
    connections: int = _MAX_CONNECTIONS
    share: float = 0.25
    """Fraction of all connections that one address may have."""


def connection_limits(*, share: float = 0.25) -> ConnectionLimits:
    """Limits for this process: at most half of its file descriptors are connections."""
    return ConnectionLimits(
        connections=min(_MAX_CONNECTIONS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2), share=share
    )


@dataclass(frozen=True)
class HttpListener:
    socket: socket.socket
    context: ssl.SSLContext | None = None
    """None: plain HTTP."""
    limits: ConnectionLimits = ConnectionLimits()
    is_outside: bool = True
    """Whether clients on other machines connect here."""
    proxies: frozenset[str] = frozenset()
    """Addresses without a share limit: each stands for many clients."""

    async def start(self, app: ASGIApp, options: dict[str, Any], state: ServerState) -> asyncio.Server:
        """Serve the app in the running event loop. Connections are added to those of `state`."""
        kept = self.limits.kept_seconds
        taken = _MarkRemote(app) if self.is_outside else app
        config = uvicorn.Config(taken, **{**options, "http": LimitedHttpProtocol, "timeout_keep_alive": kept})
        config.load()
        connections: Counter[str] = Counter()

        def protocol() -> asyncio.Protocol:
            return LimitedHttpProtocol(
                config, state, {}, limits=self.limits, connections=connections, proxies=self.proxies
            )

        return await asyncio.get_running_loop().create_server(
            protocol,
            sock=self.socket,
            ssl=self.context,
            backlog=config.backlog,
            ssl_handshake_timeout=self.limits.handshake_seconds if self.context else None,
        )


class _MarkRemote:
    """Marks requests of this listener, so that routes can tell them from local ones."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[REMOTE_REQUEST] = True
        await self._app(scope, receive, send)


class LimitedHttpProtocol(HttpToolsProtocol):
    """HTTP/1.1 protocol that enforces the limits. `connections` counts open ones by address."""

    def __init__(
        self,
        *given: Any,
        limits: ConnectionLimits,
        connections: Counter[str],
        proxies: frozenset[str] = frozenset(),
        **more: Any,
    ) -> None:
        super().__init__(*given, **more)
        self._proxies = proxies
        self._limits, self._connections, self._address = limits, connections, ""
        self._is_in_head, self._head_bytes = True, 0
        self._received, self._was_idle = 0, False
        self._unsent = 0
        self._head_end = 0.0
        self._head_timer: asyncio.TimerHandle | None = None
        self._idle_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._address = self.client[0] if self.client else "?"
        self._connections[self._address] += 1
        most = self._limits.connections
        share = 1.0 if self._address in self._proxies else self._limits.share
        if self._connections[self._address] > most * share or self._connections.total() > most:
            self._refuse(_TOO_MANY)
            return
        self._await_head()
        self._start_idle_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections[self._address] -= 1
        if not self._connections[self._address]:
            del self._connections[self._address]
        self._cancel_timers()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._received += len(data)
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
        super().on_headers_complete()

    def _await_head(self) -> None:
        """Give the client the whole time for a head. The timer is left running between requests: to set and to cancel
        one for each costs more than to find now and then that it was not needed."""
        self._head_end = self.loop.time() + self._limits.head_seconds
        if self._head_timer is None:
            self._head_timer = self.loop.call_at(self._head_end, self._end_if_in_head)

    def _end_if_in_head(self) -> None:
        self._head_timer = None
        if not self._is_in_head:
            return
        if self.flow.read_paused:  # a pipelined request that waits for us, not for the client
            self._await_head()
        elif self.loop.time() < self._head_end:
            self._head_timer = self.loop.call_at(self._head_end, self._end_if_in_head)
        else:
            self.transport.abort()

    def _start_idle_timer(self) -> None:
        self._idle_timer = self.loop.call_later(self._limits.silence_seconds / 2, self._check_idle)

    def _check_idle(self) -> None:
        """Close the connection where the client had to send or to read in this period and the last, and did neither."""
        cycle, unsent = self.cycle, self.transport.get_write_buffer_size()
        is_sending = cycle is not None and cycle.more_body and not self.flow.read_paused
        # Routes enforce the rate of the bodies that they read; nobody reads that of an answered request.
        pace = _MIN_BYTES_PER_SECOND if cycle is not None and cycle.response_complete else 0
        least = max(1.0, pace * self._limits.silence_seconds / 2)
        is_idle = (is_sending and self._received < least) or (unsent > 0 and unsent == self._unsent)
        if is_idle and self._was_idle:
            self.transport.abort()
            return
        self._received, self._was_idle, self._unsent = 0, is_idle, unsent
        self._start_idle_timer()

    def _refuse(self, answer: bytes) -> None:
        self._cancel_timers()
        self.transport.write(answer)
        self.transport.close()
        # Under TLS a close waits for the client's close, and meanwhile reads whatever it sends.
        self.loop.call_later(_CLOSE_SECONDS, self.transport.abort)

    def _cancel_timers(self) -> None:
        for timer in (self._head_timer, self._idle_timer):
            if timer is not None:
                timer.cancel()
