import time
from collections.abc import Callable

REPLACE_SECONDS = 20.0
GIVE_UP_SECONDS = 60.0


class Silence:
    """Which nodes do not answer though they are there, and for how long."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: dict[str, float] = {}
        self._replaced: set[str] = set()

    def heard(self, node_id: str) -> None:
        self._since.pop(node_id, None)
        self._replaced.discard(node_id)

    def unheard(self, node_id: str) -> None:
        self._since.setdefault(node_id, self._clock())

    def holds(self, node_id: str) -> bool:
        return node_id in self._since

    def wants_replacement(self, node_id: str) -> bool:
        """True once in a silence: when it has lasted so long that the node's agent had better be a new one."""
        if self._seconds(node_id) < REPLACE_SECONDS or node_id in self._replaced:
            return False
        self._replaced.add(node_id)
        return True

    def is_final(self, node_id: str) -> bool:
        """Nothing that was asked of the node since then can be counted on."""
        return self._seconds(node_id) >= GIVE_UP_SECONDS

    def _seconds(self, node_id: str) -> float:
        return self._clock() - self._since[node_id] if node_id in self._since else 0.0
