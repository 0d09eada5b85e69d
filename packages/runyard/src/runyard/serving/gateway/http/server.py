"""HTTP server on one port, with or without TLS."""

import asyncio
import contextlib
import socket
import ssl
from contextlib import suppress

from runyard.core.errors import InvalidArgument
from runyard.core.records.web_services import ServiceSpec, ServiceState
from runyard.serving.gateway.dispatch import Dispatcher, Splitter
from runyard.serving.gateway.http.connection import HttpConnection
from runyard.serving.gateway.http.connection_set import ClientLimits, client_limits
from runyard.serving.gateway.http.listening_socket import BACKLOG, open_listening_socket, tls_context
from runyard.serving.gateway.http.port_state import PortState, WriteLogLine

_ADDRESS = ("host", "certificate", "private_key")


async def open_port(
    spec: ServiceSpec,
    port: int,
    dispatcher: Dispatcher | Splitter,
    log_line: WriteLogLine,
    *,
    limits: ClientLimits | None = None,
) -> "PortServer":
    """Serve on that port of the spec's host; 0 means any free one. `log_line` logs failed answers.

    Raises InvalidArgument with the reason when the port or the certificate cannot be used.
    """
    endpoint = PortServer(spec, PortState(spec, dispatcher, log_line, limits or client_limits()))
    await endpoint._open(port)
    return endpoint


class PortServer:
    """Open port of a web service; create it with `open_port`."""

    def __init__(self, spec: ServiceSpec, state: PortState) -> None:
        self._spec, self._state = spec, state
        self._loop = asyncio.get_running_loop()
        self._server: asyncio.Server | TlsListener | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.port = 0

    @property
    def connections(self) -> int:
        return len(self._state.connections)

    async def reconfigure(self, spec: ServiceSpec) -> None:
        """Apply keys, limits, names and paths from the next request on. A changed address or certificate reopens the
        port for new connections; when that fails, InvalidArgument is raised and nothing is changed."""
        if spec == self._spec:
            return
        seen, self._spec = self._spec, spec
        if any(getattr(seen, name) != getattr(spec, name) for name in _ADDRESS):
            self._stop_listening()
            try:
                await self._open(self.port)
            except InvalidArgument:
                self._spec = seen
                await self._open(self.port)
                raise
        self._state.reconfigure(spec)

    def set_health(self, state: ServiceState, problem: str = "") -> None:
        """What requests get while there is no worker. With HEALTHY they are queued."""
        self._state.set_health(state, problem)

    async def close(self, grace_seconds: float = 5.0) -> None:
        """Accept no connections; open ones end after the answer that they wait for, or after the grace time."""
        self._stop_listening()
        self._state.is_closing = True
        connections = self._state.connections
        connections.close()
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(connections.emptied.wait(), grace_seconds)
        finally:
            connections.abort()
            if self._timer is not None:
                self._timer.cancel()

    async def _open(self, port: int) -> None:
        context = tls_context(self._spec)
        opened = open_listening_socket(self._spec, port)
        bound = opened.getsockname()[1]
        if context is not None:
            self._server = TlsListener(opened, context, self._state)
        else:
            self._server = await self._loop.create_server(
                lambda: HttpConnection(self._state), sock=opened, backlog=BACKLOG
            )
        self.port = bound
        if self._timer is None:
            self._check_timeouts()

    def _stop_listening(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    def _check_timeouts(self) -> None:
        self._timer = self._loop.call_later(self._state.limits.check_seconds, self._check_timeouts)
        self._state.connections.check_timeouts()


_AT_ONCE = 64
_PAUSE_SECONDS = 1.0


class TlsListener:
    """Accepts TLS clients. A client counts as a connection during its handshake already: it costs as much."""

    def __init__(self, opened: socket.socket, context: ssl.SSLContext, state: PortState) -> None:
        self._socket, self._context, self._state = opened, context, state
        self._loop = asyncio.get_running_loop()
        self._handshakes: set[asyncio.Task[None]] = set()
        opened.setblocking(False)
        self._loop.add_reader(opened, self._accept)

    def close(self) -> None:
        self._loop.remove_reader(self._socket)
        self._socket.close()

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                accepted, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # no file descriptor left: clients wait in the backlog
                self._loop.remove_reader(self._socket)
                self._loop.call_later(_PAUSE_SECONDS, self._resume_accepting)
                return
            self._start_handshake(accepted)

    def _resume_accepting(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.add_reader(self._socket, self._accept)

    def _start_handshake(self, accepted: socket.socket) -> None:
        pending = _PendingHandshake(accepted)
        if not self._state.connections.enter(pending):
            self._state.dispatcher.requests.count(503)
            accepted.close()
            return
        task = self._loop.create_task(self._handshake(accepted, pending))
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)

    async def _handshake(self, accepted: socket.socket, pending: "_PendingHandshake") -> None:
        state = self._state
        accepted.setblocking(False)
        try:
            await self._loop.connect_accepted_socket(
                lambda: _TlsConnection(state, pending),
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=state.limits.handshake_seconds,
            )
        except (OSError, EOFError):  # not TLS, disconnected, or too slow
            accepted.close()
        finally:
            state.connections.leave(pending)


class _PendingHandshake:
    """Holds the slot of a connection until its handshake is done."""

    def __init__(self, accepted: socket.socket) -> None:
        self._socket = accepted

    def check_timeouts(self) -> None:
        """Does nothing: the handshake has a timeout of its own."""

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        with suppress(OSError):  # disconnected already
            self._socket.shutdown(socket.SHUT_RDWR)


class _TlsConnection(HttpConnection):
    def __init__(self, state: PortState, pending: _PendingHandshake) -> None:
        super().__init__(state)
        self._pending = pending

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._state.connections.leave(self._pending)
        super().connection_made(transport)
