"""What of this machine's loopback a private network must still reach: ports, and name servers.

Names are often looked up at a loopback address, which in a private network is another loopback.
"""

import contextlib
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

_ADDRESSES = ("RUNYARD_URL", "http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_USUAL_PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}
_LISTENS = "0A"


def ports_to_reach(variables: Mapping[str, str]) -> list[int]:
    """Loopback ports that have a listener now, and those that `variables` name, with or without one."""
    return sorted(_named(variables) | _listening())


def _named(variables: Mapping[str, str]) -> set[int]:
    found = set()
    for name in _ADDRESSES:
        with contextlib.suppress(ValueError):  # not a port
            parts = urlsplit(variables.get(name, ""))
            port = parts.port or _USUAL_PORTS.get(parts.scheme)
            if port and _is_loopback(parts.hostname or ""):
                found.add(port)
    return found


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


def _listening() -> set[int]:
    """Ports with a listener on 127.0.0.1 or on all addresses."""
    found = set()
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in Path("/proc/self/net", table).read_text(encoding="utf-8").splitlines()[1:]:
                _, local, _, state, *_ = line.split()
                address, port = local.split(":")
                if state == _LISTENS and _answers_at_loopback(bytes.fromhex(address)):
                    found.add(int(port, 16))
    return found


def _answers_at_loopback(address: bytes) -> bool:
    """Tell whether a listener accepts connections to 127.0.0.1. The kernel writes addresses in host byte order."""
    words = [address[at : at + 4] for at in range(0, len(address), 4)]
    last = words[-1] if sys.byteorder == "big" else words[-1][::-1]
    return last in (bytes(4), bytes((127, 0, 0, 1)))
