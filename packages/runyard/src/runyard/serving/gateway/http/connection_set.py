import asyncio
import resource
from dataclasses import dataclass
from functools import cache
from typing import Protocol


class TrackedConnection(Protocol):
    def check_timeouts(self) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...


class ConnectionSlots:
    """Number of connections that the process may hold on all ports together."""

    def __init__(self, most: int) -> None:
        self.most, self.taken = most, 0


class ConnectionSet:
    """Open connections of a port, with a common clock for their timeouts."""

    def __init__(self, most: int, slots: ConnectionSlots) -> None:
        self._most, self._slots = most, slots
        self._members: set[TrackedConnection] = set()
        self.emptied = asyncio.Event()
        self.emptied.set()
        self.ticks = 0
        """Number of timeout checks so far: the clock of the connections."""

    def __len__(self) -> int:
        return len(self._members)

    def enter(self, member: TrackedConnection) -> bool:
        """Add a connection; returns False when there are too many."""
        if len(self._members) >= self._most or self._slots.taken >= self._slots.most:
            return False
        self._slots.taken += 1
        self._members.add(member)
        self.emptied.clear()
        return True

    def leave(self, member: TrackedConnection) -> None:
        if member in self._members:
            self._members.remove(member)
            self._slots.taken -= 1
        if not self._members:
            self.emptied.set()

    def check_timeouts(self) -> None:
        """Advance the clock and let each connection end what takes too long."""
        self.ticks += 1
        for member in list(self._members):
            member.check_timeouts()

    def close(self) -> None:
        """Close each connection after the answer that it waits for."""
        for member in list(self._members):
            member.close()

    def abort(self) -> None:
        for member in list(self._members):
            member.abort()


_MOST_CONNECTIONS = 4000


@dataclass(frozen=True)
class ClientLimits:
    """Time and size limits of a client's connection."""

    handshake_seconds: float = 15.0
    head_seconds: float = 20.0
    """For receiving the head of a request, from its first byte, or from the start of the connection."""
    silence_seconds: float = 30.0
    """Time limit without a byte of a body received, or of an answer read by the client."""
    body_seconds: float = 60.0
    slowest_bytes_per_second: int = 16 * 1024
    """A body may take `body_seconds`, and longer while it arrives faster than this; the same holds for answers."""
    kept_seconds: float = 75.0
    """Keep-alive time between two requests."""
    farewell_seconds: float = 5.0
    """Time for discarding the rest of a refused body, so that the client can read the answer."""
    head_bytes: int = 64 * 1024
    head_fields: int = 200
    connections: int = _MOST_CONNECTIONS
    pipelined: int = 16

    @property
    def check_seconds(self) -> float:
        """Interval of the timeout checks."""
        shortest = min(self.head_seconds, self.silence_seconds, self.body_seconds, self.kept_seconds)
        return min(1.0, shortest / 4, self.farewell_seconds / 4)


def client_limits() -> ClientLimits:
    """Default limits: one port takes at most two thirds of the slots of the process."""
    return ClientLimits(connections=min(_MOST_CONNECTIONS, connection_slots().most * 2 // 3))


@cache
def connection_slots() -> ConnectionSlots:
    """Slots of this process: a quarter of its file descriptors is left for other uses."""
    return ConnectionSlots(resource.getrlimit(resource.RLIMIT_NOFILE)[0] * 3 // 4)
