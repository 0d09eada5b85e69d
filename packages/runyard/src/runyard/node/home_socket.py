"""Requests between the processes of a home: one JSON line each way over a Unix socket in the home folder."""

import contextlib
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from runyard.core.errors import EngineError, Json
from runyard_sdk.home import home_identity

_LONGEST_LINE = 8 << 20
OTHER_HOME = "other_home"


@contextlib.contextmanager
def socket_address(home: Path, name: str) -> Iterator[str]:
    """Path of a socket, through /proc: an address holds 107 bytes, and the path of a home folder may be longer."""
    fd = os.open(home, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{fd}/{name}"
    finally:
        os.close(fd)


def ask_socket(home: Path, name: str, request: Json, *, timeout_seconds: float = 10.0) -> Json:
    """Send a request to the process that listens there, and return its answer. Raises OSError when none does for this
    home: in a copy of a home that was made of hard links, sockets lead to processes of the original."""
    request = {**request, "home_id": home_identity(str(home))}
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection, socket_address(home, name) as address:
        connection.settimeout(timeout_seconds)
        connection.connect(address)
        connection.sendall(json.dumps(request).encode() + b"\n")
        line = read_line(connection)
    if not line.endswith(b"\n"):
        raise ConnectionResetError(f"whoever listens at {name} ended before it answered")
    answer: Json = json.loads(line)
    if answer.get(OTHER_HOME):
        raise ConnectionRefusedError(f"{home / name} leads to a process of another home")
    return answer


def is_for_home(home: Path, request: Json) -> bool:
    """Tell whether a request is meant for this home. If not, the answer is `{OTHER_HOME: true}`."""
    return not isinstance(request, dict) or request.get("home_id") in (None, home_identity(str(home)))


def read_line(connection: socket.socket) -> bytes:
    """Read up to the line end, or to where the other side closed."""
    line = b""
    while not line.endswith(b"\n") and len(line) < _LONGEST_LINE:
        piece = connection.recv(1 << 16)
        if not piece:
            break
        line += piece
    return line


AGENT_SOCKET, AGENT_LOCK, AGENT_LOG = "agent.sock", "agent.lock", "agent.log"
ANOTHER_AGENT = 3
"""Exit code of an agent whose home already has one."""


def ask_agent(home: Path, request: Json, *, timeout_seconds: float = 10.0) -> Json:
    """Send a request to the agent of this home. Raises OSError when none answers, EngineError when it refuses."""
    answer = ask_socket(home, AGENT_SOCKET, request, timeout_seconds=timeout_seconds)
    if "error" in answer:
        raise EngineError(f"The node agent refused {request['op']!r}: {answer['error']}")
    return answer
