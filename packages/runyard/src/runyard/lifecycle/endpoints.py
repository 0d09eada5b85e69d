import time
from pathlib import Path

from runyard.environments.durable import locked_if_free
from runyard.errors import RunyardError
from runyard.node.line_socket import ask_socket
from runyard.serving.names import GATEWAY_LOCK, GATEWAY_SOCKET

END_SECONDS = 30.0
LOOK_AGAIN_SECONDS = 0.05


def stop_web_services(home: Path) -> int:
    """Stop the gateway and its workers; return how many web services that stopped. They restart with the service.

    Stop the service first: it would start the gateway again. Raises RunyardError where the gateway does not end.
    """
    began, stopped = time.monotonic(), 0
    while _is_watched(home):
        stopped = max(stopped, _answering(home) or 0)
        _answering(home, op="exit")
        if time.monotonic() - began > END_SECONDS:
            raise RunyardError("The gateway of web services does not end.", hint=f"See {home}/gateway.log.")
        time.sleep(LOOK_AGAIN_SECONDS)
    return stopped


def answering_services(home: Path) -> int:
    """Number of web services that the gateway of this home serves."""
    return _answering(home) or 0


def _is_watched(home: Path) -> bool:
    """Whether a gateway runs, or is being restarted after a crash."""
    if not (home / GATEWAY_LOCK).exists():
        return False
    with locked_if_free(home / GATEWAY_LOCK) as is_free:
        return not is_free


def _answering(home: Path, op: str = "status") -> int | None:
    """Send `op` to the gateway; the number of its web services, or None where none answers."""
    try:
        return len(ask_socket(home, GATEWAY_SOCKET, {"op": op}).get("services") or ())
    except (OSError, ValueError):
        return None
