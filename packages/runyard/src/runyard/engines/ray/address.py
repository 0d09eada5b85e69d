import re
import socket

from runyard.errors import EngineError, InvalidArgument

CLIENT_SCHEME = "ray://"
_CONNECT_SECONDS = 3.0
_PLACE = re.compile(r"(?P<host>[A-Za-z0-9._\-]+|\[[0-9A-Fa-f:.]+\]):(?P<port>\d{1,5})")


def parse_address(address: str) -> str:
    """The address of a Ray cluster as Ray takes it. Raises InvalidArgument for anything but the two forms."""
    text = address.strip() if isinstance(address, str) else ""
    place = _PLACE.fullmatch(text.removeprefix(CLIENT_SCHEME))
    if place is None or not 0 < int(place["port"]) < 65536:
        raise InvalidArgument(
            f"address is {address!r}, which is no address of a Ray cluster.",
            hint="Give HOST:PORT of its head (6379 by default) where a Ray node runs on the service's machine, "
            "else ray://HOST:10001.",
        )
    return text


def require_listener(address: str) -> None:
    """Raises EngineError within seconds when nobody takes connections there; Ray itself would try for half a minute."""
    host, _, port = parse_address(address).removeprefix(CLIENT_SCHEME).rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_SECONDS).close()
    except OSError as e:
        raise EngineError(
            f"Nobody answers at {address}: {e.strerror or e}.",
            hint="Check that the head of the Ray cluster runs and that the address is right.",
        ) from e
