import os
import threading
import time
from collections.abc import Hashable

from runyard.web.client import MAX_IDLE_SECONDS, MAX_KEPT
from runyard.web.network import Stream


class Pool:
    """Idle connections by origin. A forked child starts with none: two processes that read from one connection would
    each get parts of the other's response."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._kept: list[tuple[Hashable, Stream, float]] = []

    def take(self, origin: Hashable) -> Stream | None:
        """Take the most recently used connection: it is the least likely to be closed by the server."""
        if os.getpid() != self._pid:
            self.__init__()  # type: ignore[misc]
        with self._lock:
            for index in range(len(self._kept) - 1, -1, -1):
                if self._kept[index][0] == origin:
                    _, connection, since = self._kept.pop(index)
                    if time.monotonic() - since < MAX_IDLE_SECONDS:
                        return connection
                    connection.close()
        return None

    def give(self, origin: Hashable, connection: Stream) -> None:
        with self._lock:
            self._kept.append((origin, connection, time.monotonic()))
            oldest = self._kept.pop(0)[1] if len(self._kept) > MAX_KEPT else None
        if oldest:
            oldest.close()

    def close(self) -> None:
        with self._lock:
            kept, self._kept = self._kept, []
        for _, connection, _ in kept:
            connection.close()
