"""HTTP server on one port, with or without TLS."""

import asyncio
import contextlib

from runyard.errors import InvalidArgument
from runyard.model.web_services import ServiceSpec, ServiceState
from runyard.serving.dispatch import Dispatcher, Splitter
from runyard.serving.front.connection import Connection
from runyard.serving.front.limits import ConnectionLimits, limits_here
from runyard.serving.front.listening import BACKLOG, listen, tls_context
from runyard.serving.front.reception import Reception, Say
from runyard.serving.front.tls_listener import TlsListener

_ADDRESS = ("host", "certificate", "private_key")


async def open_port(
    spec: ServiceSpec, port: int, dispatcher: Dispatcher | Splitter, say: Say, *, limits: ConnectionLimits | None = None
) -> "Endpoint":
    """Serve on that port of the spec's host; 0 means any free one. `say` logs failed answers.

    Raises InvalidArgument with the reason when the port or the certificate cannot be used.
    """
    endpoint = Endpoint(spec, Reception(spec, dispatcher, say, limits or limits_here()))
    await endpoint._open(port)
    return endpoint


class Endpoint:
    """Open port of a web service; create it with `open_port`."""

    def __init__(self, spec: ServiceSpec, state: Reception) -> None:
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
        opened = listen(self._spec, port)
        bound = opened.getsockname()[1]
        if context is not None:
            self._server = TlsListener(opened, context, self._state)
        else:
            self._server = await self._loop.create_server(lambda: Connection(self._state), sock=opened, backlog=BACKLOG)
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
