"""Port of a web service, which can move to another number without refusing requests."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from runyard.core.errors import InvalidArgument
from runyard.core.records.launch_plan import PortRequest
from runyard.core.records.web_services import ServiceSpec, ServiceState
from runyard.node.network.ports import PortLocks, find_foreign_listener
from runyard.serving.gateway.dispatch import Dispatcher, Splitter
from runyard.serving.gateway.http.port_state import WriteLogLine
from runyard.serving.gateway.http.server import PortServer, open_port

MakeSpec = Callable[[], ServiceSpec]
"""Called after waiting for the lock: the spec may have changed meanwhile."""


class ServicePort:
    """Open port of a web service. During a move the old and the new port are both open and answer."""

    def __init__(self, home: Path, dispatcher: Dispatcher | Splitter, log_line: WriteLogLine) -> None:
        self._home, self._dispatcher, self._log_line = home, dispatcher, log_line
        self._endpoint: PortServer | None = None
        self._next: PortServer | None = None
        self._lock = asyncio.Lock()

    @property
    def is_open(self) -> bool:
        return self._endpoint is not None

    @property
    def number(self) -> int:
        """0 while none is open."""
        return self._endpoint.port if self._endpoint else 0

    async def open(self, spec: MakeSpec, known_port: int) -> None:
        """Open the port that the spec names, else keep the open one, else `known_port`, else a free one.

        When another is open already, it becomes the next port, for `move`. Raises InvalidArgument, which names the
        process that has the port.
        """
        async with self._lock:
            wanted = spec()
            if self.number and wanted.port in (0, self.number):
                return
            opened = await self._opened(wanted, wanted.port or known_port or _free_port(self._home))
            if self._endpoint is None:
                self._endpoint = opened
            else:
                self._next = opened

    async def reconfigure(self, spec: MakeSpec) -> None:
        """See PortServer.reconfigure."""
        async with self._lock:
            for endpoint in (self._endpoint, self._next):
                if endpoint is not None:
                    await endpoint.reconfigure(spec())

    def move(self) -> PortServer | None:
        """Switch to the next port, if any, and return the old one, which is still open, for the caller to close."""
        if self._next is None:
            return None
        old, self._endpoint, self._next = self._endpoint, self._next, None
        return old

    async def cancel_move(self) -> None:
        """Close the next port."""
        cancelled, self._next = self._next, None
        if cancelled is not None:
            await cancelled.close(0)

    def set_health(self, state: ServiceState, problem: str) -> None:
        if self._endpoint is not None:
            self._endpoint.set_health(state, problem)

    async def close(self, grace_seconds: float) -> None:
        await self.cancel_move()
        endpoint, self._endpoint = self._endpoint, None
        if endpoint is not None:
            await endpoint.close(grace_seconds)

    async def _opened(self, spec: ServiceSpec, port: int) -> PortServer:
        try:
            return await open_port(spec, port, self._dispatcher, self._log_line)
        except InvalidArgument as error:
            holder = find_foreign_listener((port,), "")
            if holder is None:
                raise
            raise InvalidArgument(f"{error.problem} {str(holder).capitalize()} has it.", hint=error.hint) from None


class NoPort:
    """Stands for ServicePort in a version, which answers through the port of its endpoint."""

    is_open, number = True, 0

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    async def open(self, spec: MakeSpec, known_port: int) -> None:
        """Does nothing."""

    async def reconfigure(self, spec: MakeSpec) -> None:
        """Does nothing."""

    def move(self) -> None:
        return None

    async def cancel_move(self) -> None:
        """Does nothing."""

    def set_health(self, state: ServiceState, problem: str) -> None:
        self._dispatcher.set_outage(None if state is ServiceState.HEALTHY else problem)

    async def close(self, grace_seconds: float) -> None:
        """Does nothing: the workers finish the endpoint's requests."""


def _free_port(home: Path) -> int:
    """A free port outside the range that the kernel uses for outgoing connections."""
    held = PortLocks(home / "ports")
    try:
        return held.choose([PortRequest("web service")])["web service"]
    finally:
        held.close()
