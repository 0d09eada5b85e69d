"""One JSON object a line, both ways, between the service and its bridge."""

import contextlib
import json
import socket
import threading
from collections.abc import Iterator

from runyard.errors import Json


class JsonLines:
    """Safe to write from many threads; read by one."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._writing = threading.Lock()

    def send(self, message: Json) -> None:
        """Raises OSError when the other side is gone."""
        line = json.dumps(message).encode() + b"\n"
        with self._writing:
            self._connection.sendall(line)

    def read(self) -> Iterator[Json]:
        """Until the other side closes, or dies in the middle of a line."""
        try:
            with self._connection.makefile("rb") as file:
                for line in file:
                    if line.endswith(b"\n"):
                        yield json.loads(line)
        except OSError:
            return

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)  # a reader in another thread wakes up
        self._connection.close()
