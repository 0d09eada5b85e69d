"""One JSON line each way over a Unix socket in the home folder: how the processes of a home ask one another."""

import contextlib
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from runyard.errors import Json

_LONGEST_LINE = 8 << 20


@contextlib.contextmanager
def socket_address(home: Path, name: str) -> Iterator[str]:
    """A socket's address holds 107 bytes, and a home folder may lie deeper than that."""
    fd = os.open(home, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{fd}/{name}"
    finally:
        os.close(fd)


def ask_socket(home: Path, name: str, request: Json, *, timeout_seconds: float = 10.0) -> Json:
    """One question to whoever listens there. Raises OSError when nobody answers."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection, socket_address(home, name) as address:
        connection.settimeout(timeout_seconds)
        connection.connect(address)
        connection.sendall(json.dumps(request).encode() + b"\n")
        line = read_line(connection)
    if not line.endswith(b"\n"):
        raise ConnectionResetError(f"whoever listens at {name} ended before it answered")
    answer: Json = json.loads(line)
    return answer


def read_line(connection: socket.socket) -> bytes:
    """Up to the line end, or what came before the other side closed."""
    line = b""
    while not line.endswith(b"\n") and len(line) < _LONGEST_LINE:
        piece = connection.recv(1 << 16)
        if not piece:
            break
        line += piece
    return line
