import contextlib
import os
import re
import socket
import time

from runyard.core.errors import EngineError, InvalidArgument

CLIENT_SCHEME = "ray://"
_CONNECT_SECONDS = 3.0
_GREETING_SECONDS = 3.0
_LONGEST_HOST = 253
_SHOWN = 80
_PLACE = re.compile(r"(?P<host>[A-Za-z0-9._\-]+|\[[0-9A-Fa-f:.]+\]):(?P<port>\d{1,5})")
_SETTINGS = b"\x04"
_EMPTY_SETTINGS = b"\0\0\0" + _SETTINGS + b"\0\0\0\0\0"
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _EMPTY_SETTINGS
"""Preface of HTTP/2, which Ray speaks through gRPC. A server answers with a SETTINGS frame first."""


def parse_address(address: str) -> str:
    """Parse HOST:PORT or ray://HOST:PORT of a Ray cluster. Raises InvalidArgument for anything else."""
    text = address.strip() if isinstance(address, str) else ""
    place = _PLACE.fullmatch(text.removeprefix(CLIENT_SCHEME))
    if place is None or len(place["host"]) > _LONGEST_HOST or not 0 < int(place["port"]) < 65536:
        shown = repr(address) if len(str(address)) <= _SHOWN else f"{str(address)[:_SHOWN]!r}..."
        raise InvalidArgument(
            f"address must be HOST:PORT of the head of a Ray cluster, got {shown}.",
            hint="The port is 6379 by default, where a Ray node runs on the service's machine; else give "
            "ray://HOST:10001.",
        )
    return text


def require_ray(address: str) -> None:
    """Raise EngineError within seconds if no Ray listens there: Ray itself would try for half a minute and say less."""
    host, _, port = parse_address(address).removeprefix(CLIENT_SCHEME).rpartition(":")
    try:
        connection = socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_SECONDS)
    except (OSError, UnicodeError) as e:
        raise EngineError(
            f"Nobody answers at {address}: {getattr(e, 'strerror', None) or e}.",
            hint="Check that the head of the Ray cluster runs, that the address is right, and that no firewall is "
            "between it and the service.",
        ) from e
    with connection:
        if os.environ.get("RAY_USE_TLS", "0") == "0" and not _speaks_http2(connection):
            raise EngineError(
                f"Something listens at {address}, but it is no Ray cluster.",
                hint="The port is that of the head (6379 by default), or of Ray's client (ray://HOST:10001); not that "
                "of its dashboard.",
            )


def _speaks_http2(connection: socket.socket) -> bool:
    ends_at, answer = time.monotonic() + _GREETING_SECONDS, b""
    with contextlib.suppress(OSError):
        connection.sendall(_GREETING)
        while len(answer) < len(_EMPTY_SETTINGS) and (left := ends_at - time.monotonic()) > 0:
            connection.settimeout(left)
            if not (more := connection.recv(len(_EMPTY_SETTINGS) - len(answer))):
                break
            answer += more
    return answer[3:4] == _SETTINGS
