import contextlib
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from runyard.errors import EngineError, Json

_LONGEST_LINE = 1 << 20
ANOTHER_AGENT = 3
"""Exit code of an agent that found another in its place."""


@contextlib.contextmanager
def socket_address(home: Path) -> Iterator[str]:
    """A socket's address holds 107 bytes, and a home folder may lie deeper than that."""
    fd = os.open(home, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{fd}/agent.sock"
    finally:
        os.close(fd)


def ask_agent(home: Path, request: Json, *, timeout_seconds: float = 10.0) -> Json:
    """One question to the agent of this home. Raises OSError when none answers, EngineError when it refuses."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection, socket_address(home) as address:
        connection.settimeout(timeout_seconds)
        connection.connect(address)
        connection.sendall(json.dumps(request).encode() + b"\n")
        line = read_line(connection)
    if not line.endswith(b"\n"):
        raise ConnectionResetError("the agent ended before it answered")
    answer: Json = json.loads(line)
    if "error" in answer:
        raise EngineError(f"The node agent refused {request['op']!r}: {answer['error']}")
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
