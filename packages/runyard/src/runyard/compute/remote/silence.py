import time
from collections.abc import Callable

REPLACE_SECONDS = 20.0
GIVE_UP_SECONDS = 60.0


class Silence:
    """Nodes that are part of the cluster but do not answer, and since when."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: dict[str, float] = {}
        self._replaced: set[str] = set()

    def answered(self, node_id: str) -> None:
        self._since.pop(node_id, None)
        self._replaced.discard(node_id)

    def missed(self, node_id: str) -> None:
        self._since.setdefault(node_id, self._clock())

    def is_silent(self, node_id: str) -> bool:
        return node_id in self._since

    def wants_replacement(self, node_id: str) -> bool:
        """Tell, once for each silence, that it has lasted so long that the node's agent should be replaced."""
        if self._seconds(node_id) < REPLACE_SECONDS or node_id in self._replaced:
            return False
        self._replaced.add(node_id)
        return True

    def is_final(self, node_id: str) -> bool:
        """Tell whether the node has been silent so long that it is given up."""
        return self._seconds(node_id) >= GIVE_UP_SECONDS

    def _seconds(self, node_id: str) -> float:
        return self._clock() - self._since[node_id] if node_id in self._since else 0.0
