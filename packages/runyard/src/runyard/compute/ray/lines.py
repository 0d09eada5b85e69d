import contextlib
import json
import socket
import threading
from collections.abc import Iterator

from runyard.errors import Json


class JsonLines:
    """JSON lines over a socket, between service and bridge. `send` is thread-safe; only one thread may `read`."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._writing = threading.Lock()

    def send(self, message: Json) -> None:
        """Raises OSError when the other side is gone."""
        line = json.dumps(message).encode() + b"\n"
        with self._writing:
            self._connection.sendall(line)

    def read(self) -> Iterator[Json]:
        """Yield messages until the other side closes. A truncated last line is dropped."""
        try:
            with self._connection.makefile("rb") as file:
                for line in file:
                    if line.endswith(b"\n"):
                        yield json.loads(line)
        except OSError:
            return

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)  # wakes up a reader in another thread
        self._connection.close()
