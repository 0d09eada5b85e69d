"""Clients that ask without a pause, and count what they were told."""

import http.client
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

CLIENTS = 4


class Load:
    """What was answered, by status; a connection that broke counts as 0."""

    def __init__(self, port: int) -> None:
        self._port, self._is_over = port, threading.Event()
        self._lock = threading.Lock()
        self.statuses: Counter[int] = Counter()
        self.bodies: Counter[bytes] = Counter()

    def ask_on(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        while not self._is_over.is_set():
            try:
                connection.request("POST", "/score", b"{}", {"Content-Type": "application/json"})
                answer = connection.getresponse()
                status, body = answer.status, answer.read()
            except (OSError, http.client.HTTPException):
                status, body = 0, b""
                connection.close()
            with self._lock:
                self.statuses[status] += 1
                self.bodies[body] += 1
        connection.close()

    def end(self) -> None:
        self._is_over.set()


@contextmanager
def under_load(port: int) -> Iterator[Load]:
    load = Load(port)
    clients = [threading.Thread(target=load.ask_on) for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    try:
        yield load
    finally:
        load.end()
        for client in clients:
            client.join()
