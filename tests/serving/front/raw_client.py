"""A client that sends exactly the bytes it is told to."""

import contextlib
import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

SECONDS = 120.0


@dataclass(frozen=True)
class Reply:
    status: int
    fields: dict[str, str]
    """By names in lower case."""
    body: bytes

    @property
    def message(self) -> str:
        return str(json.loads(self.body)["message"])

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class RawClient:
    def __init__(self, opened: socket.socket) -> None:
        opened.settimeout(SECONDS)
        self.socket = opened
        self._stream = opened.makefile("rb")

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def ask(self, data: bytes) -> Reply:
        self.send(data)
        return self.read()

    def read(self, *, of_head: bool = False) -> Reply:
        """The next answer. Raises EOFError when there is none."""
        line = self._stream.readline()
        if not line:
            raise EOFError
        fields: dict[str, str] = {}
        while (field := self._stream.readline().decode("latin-1").strip()) != "":
            name, _, value = field.partition(":")
            assert name.lower() not in fields, f"{name} comes twice"
            fields[name.lower()] = value.strip()
        size = 0 if of_head else int(fields.get("content-length", 0))
        return Reply(int(line.split()[1]), fields, self._stream.read(size))

    def read_rest(self) -> bytes:
        """All that still comes before the other end closes or resets the connection."""
        parts = []
        with contextlib.suppress(ConnectionResetError):
            while part := self._stream.read1(1 << 20):
                parts.append(part)
        return b"".join(parts)

    def is_closed(self) -> bool:
        """Waits for the end: nothing more comes."""
        try:
            return self._stream.read(1) == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        self._stream.close()
        self.socket.close()


@contextlib.contextmanager
def connected(port: int) -> Iterator[RawClient]:
    client = RawClient(socket.create_connection(("127.0.0.1", port), timeout=SECONDS))
    try:
        yield client
    finally:
        client.close()


def request(method: str = "POST", path: str = "/score", body: bytes | None = None, **fields: str) -> bytes:
    """Field names have - for _; a field of "" is left out."""
    known = {"Host": "localhost"}
    if body is not None:
        known |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
    known |= {name.replace("_", "-"): value for name, value in fields.items()}
    lines = "".join(f"{name}: {value}\r\n" for name, value in known.items() if value)
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode("latin-1") + (body or b"")


def ask(port: int, method: str = "POST", path: str = "/score", body: bytes | None = None, **fields: str) -> Reply:
    """One request on a connection of its own."""
    with connected(port) as client:
        return client.ask(request(method, path, body, **fields))
