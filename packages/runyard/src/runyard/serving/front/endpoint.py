"""A web service's port."""

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
    """Answer on that port of the spec's host; 0 means any free one. `say` hears of answers that failed.

    Raises InvalidArgument, in words, when the port cannot be had, or the certificate cannot be used.
    """
    endpoint = Endpoint(spec, Reception(spec, dispatcher, say, limits or limits_here()))
    await endpoint._open(port)
    return endpoint


class Endpoint:
    """Made by `open_port`."""

    def __init__(self, spec: ServiceSpec, reception: Reception) -> None:
        self._spec, self._reception = spec, reception
        self._loop = asyncio.get_running_loop()
        self._server: asyncio.Server | TlsListener | None = None
        self._bell: asyncio.TimerHandle | None = None
        self.port = 0

    @property
    def connections(self) -> int:
        return len(self._reception.crowd)

    async def reconfigure(self, spec: ServiceSpec) -> None:
        """Keys, limits, names and paths count from the next request on. Another address or certificate opens the port
        anew, for new connections; raises InvalidArgument, and all stays as it was, where that fails."""
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
        self._reception.reconfigure(spec)

    def set_health(self, state: ServiceState, problem: str = "") -> None:
        """What is heard while no worker is there. With HEALTHY, requests wait for one."""
        self._reception.set_health(state, problem)

    async def close(self, grace_seconds: float = 5.0) -> None:
        """No new connections; those that are open end after the answer they wait for, or when the time is over."""
        self._stop_listening()
        self._reception.is_closing = True
        crowd = self._reception.crowd
        crowd.close()
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(crowd.emptied.wait(), grace_seconds)
        finally:
            crowd.abort()
            if self._bell is not None:
                self._bell.cancel()

    async def _open(self, port: int) -> None:
        context = tls_context(self._spec)
        opened = listen(self._spec, port)
        bound = opened.getsockname()[1]
        if context is not None:
            self._server = TlsListener(opened, context, self._reception)
        else:
            self._server = await self._loop.create_server(
                lambda: Connection(self._reception), sock=opened, backlog=BACKLOG
            )
        self.port = bound
        if self._bell is None:
            self._look()

    def _stop_listening(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    def _look(self) -> None:
        self._bell = self._loop.call_later(self._reception.limits.look_seconds, self._look)
        self._reception.crowd.look()
