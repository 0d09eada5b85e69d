"""Where a web service answers."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from runyard.errors import InvalidArgument
from runyard.model.plan import PortWish
from runyard.model.web_services import ServiceSpec, ServiceState
from runyard.node.ports import HeldPorts, stranger_on
from runyard.serving.dispatch import Dispatcher, Splitter
from runyard.serving.front.endpoint import Endpoint, open_port
from runyard.serving.front.reception import Say

MakeSpec = Callable[[], ServiceSpec]
"""Asked when it is its turn: a spec may change while something else is waited for."""


class ServicePort:
    """The open port of a web service. While it moves, the next one is open beside it, and both answer."""

    def __init__(self, home: Path, dispatcher: Dispatcher | Splitter, say: Say) -> None:
        self._home, self._dispatcher, self._say = home, dispatcher, say
        self._endpoint: Endpoint | None = None
        self._next: Endpoint | None = None
        self._turn = asyncio.Lock()

    @property
    def is_open(self) -> bool:
        return self._endpoint is not None

    @property
    def number(self) -> int:
        """0 while none is open."""
        return self._endpoint.port if self._endpoint else 0

    async def open(self, spec: MakeSpec, known_port: int) -> None:
        """The port that the spec names, else the one that is open, else the one that the web service had, else a free
        one. It is the next one where another is open. Raises InvalidArgument that says who has it."""
        async with self._turn:
            wanted = spec()
            if self.number and wanted.port in (0, self.number):
                return
            opened = await self._opened(wanted, wanted.port or known_port or _free_port(self._home))
            if self._endpoint is None:
                self._endpoint = opened
            else:
                self._next = opened

    async def reconfigure(self, spec: MakeSpec) -> None:
        """As Endpoint.reconfigure."""
        async with self._turn:
            for endpoint in (self._endpoint, self._next):
                if endpoint is not None:
                    await endpoint.reconfigure(spec())

    def move(self) -> Endpoint | None:
        """To the next one, where there is one: then the old one, which is still open, is for the caller to close."""
        if self._next is None:
            return None
        old, self._endpoint, self._next = self._endpoint, self._next, None
        return old

    async def stay(self) -> None:
        """Close the next one again."""
        given_up, self._next = self._next, None
        if given_up is not None:
            await given_up.close(0)

    def set_health(self, state: ServiceState, problem: str) -> None:
        if self._endpoint is not None:
            self._endpoint.set_health(state, problem)

    async def close(self, grace_seconds: float) -> None:
        await self.stay()
        endpoint, self._endpoint = self._endpoint, None
        if endpoint is not None:
            await endpoint.close(grace_seconds)

    async def _opened(self, spec: ServiceSpec, port: int) -> Endpoint:
        try:
            return await open_port(spec, port, self._dispatcher, self._say)
        except InvalidArgument as error:
            holder = stranger_on((port,), "")
            if holder is None:
                raise
            raise InvalidArgument(f"{error.problem} {str(holder).capitalize()} has it.", hint=error.hint) from None


class NoPort:
    """Of a version, which is asked through the port of its endpoint. As ServicePort otherwise."""

    is_open, number = True, 0

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    async def open(self, spec: MakeSpec, known_port: int) -> None:
        """There is nothing to open, and nothing that could be in its way."""

    async def reconfigure(self, spec: MakeSpec) -> None:
        """There is nothing to change."""

    def move(self) -> None:
        return None

    async def stay(self) -> None:
        """It is where it was."""

    def set_health(self, state: ServiceState, problem: str) -> None:
        self._dispatcher.set_outage(None if state is ServiceState.HEALTHY else problem)

    async def close(self, grace_seconds: float) -> None:
        """What was asked of the endpoint is for the workers to finish."""


def _free_port(home: Path) -> int:
    """One that no outgoing connection of the machine will take."""
    held = HeldPorts(home / "ports")
    try:
        return held.choose([PortWish("web service")])["web service"]
    finally:
        held.close()
