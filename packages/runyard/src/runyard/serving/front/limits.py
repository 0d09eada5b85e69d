import resource
from dataclasses import dataclass
from functools import cache

from runyard.serving.front.crowd import Places

_MOST_CONNECTIONS = 4000


@dataclass(frozen=True)
class ConnectionLimits:
    """What a client's connection may cost, whatever it sends or fails to send."""

    handshake_seconds: float = 15.0
    head_seconds: float = 20.0
    """In which the head of a request must have come, from its first byte, or from the connection's beginning."""
    silence_seconds: float = 30.0
    """A body of which nothing comes, or an answer of which nothing is taken, for so long is given up."""
    body_seconds: float = 60.0
    slowest_bytes_per_second: int = 16 * 1024
    """A body may take `body_seconds`, and longer as long as it comes faster than this; so may an answer to be taken."""
    kept_seconds: float = 75.0
    """For which a connection is kept between two requests."""
    farewell_seconds: float = 5.0
    """For which the rest of a refused body is thrown away, so that the client gets to read why."""
    head_bytes: int = 64 * 1024
    head_fields: int = 200
    connections: int = _MOST_CONNECTIONS
    pipelined: int = 16

    @property
    def look_seconds(self) -> float:
        """How often connections are looked at."""
        shortest = min(self.head_seconds, self.silence_seconds, self.body_seconds, self.kept_seconds)
        return min(1.0, shortest / 4, self.farewell_seconds / 4)


def limits_here() -> ConnectionLimits:
    """No port takes all that there is for all of them."""
    return ConnectionLimits(connections=min(_MOST_CONNECTIONS, places_here().most * 2 // 3))


@cache
def places_here() -> Places:
    """A quarter of the files that this process may open is left to everything else."""
    return Places(resource.getrlimit(resource.RLIMIT_NOFILE)[0] * 3 // 4)
