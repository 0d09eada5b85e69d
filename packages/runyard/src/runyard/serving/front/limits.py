import resource
from dataclasses import dataclass
from functools import cache

from runyard.serving.front.crowd import Places

_MOST_CONNECTIONS = 4000


@dataclass(frozen=True)
class ConnectionLimits:
    """Time and size limits of a client's connection."""

    handshake_seconds: float = 15.0
    head_seconds: float = 20.0
    """For receiving the head of a request, from its first byte, or from the start of the connection."""
    silence_seconds: float = 30.0
    """Without any byte of a body received, or of an answer read by the client."""
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


def limits_here() -> ConnectionLimits:
    """Default limits: one port takes at most two thirds of the slots of the process."""
    return ConnectionLimits(connections=min(_MOST_CONNECTIONS, places_here().most * 2 // 3))


@cache
def places_here() -> Places:
    """Slots of this process: a quarter of its file descriptors is left for other uses."""
    return Places(resource.getrlimit(resource.RLIMIT_NOFILE)[0] * 3 // 4)
