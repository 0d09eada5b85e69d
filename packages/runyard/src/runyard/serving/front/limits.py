import resource
from dataclasses import dataclass

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
    """A body may take `body_seconds`, and longer as long as it comes faster than this."""
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
    """Half of the files that this process may open are left to everything else."""
    most = min(_MOST_CONNECTIONS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)
    return ConnectionLimits(connections=most)
