"""Finds the loopback ports and name servers of this machine that a private network must reach.

Names are often looked up at a loopback address, which in a private network is another loopback.
"""

import contextlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from runyard.data.fuse import kernel

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


RESOLVER_SETTINGS = Path("/etc/resolv.conf")
# Where systemd-resolved, the usual server on a loopback address, writes its upstream servers.
UPSTREAM_SETTINGS = Path("/run/systemd/resolve/resolv.conf")
_MS_BIND = 0x1000
_FORWARDED = "127.0.0.1"


def why_no_names() -> str:
    """Why names cannot be looked up in a private network; "" when they can."""
    servers = _servers(RESOLVER_SETTINGS)
    if _are_reached(servers) or (UPSTREAM_SETTINGS.exists() and _are_reached(_servers(UPSTREAM_SETTINGS))):
        return ""
    return f"This machine looks names up at {servers[0]}, which a private network does not reach."


def use_upstream_name_servers() -> None:
    """Have this process and its children ask the upstream name servers, where /etc/resolv.conf names a loopback
    address. For a process in a private network. OSError where that is not allowed."""
    if _are_reached(_servers(RESOLVER_SETTINGS)):
        return
    if not kernel.unshare_mounts():
        raise PermissionError("mounts of its own are not allowed to this process")
    kernel.mount(UPSTREAM_SETTINGS, os.path.realpath(RESOLVER_SETTINGS), "none", _MS_BIND)


def _are_reached(servers: list[str]) -> bool:
    """Tell whether the first server is outside, or is forwarded. Without servers nothing is looked up."""
    return not servers or servers[0] == _FORWARDED or not (servers[0].startswith("127.") or servers[0] == "::1")


def _servers(settings: Path) -> list[str]:
    try:
        lines = settings.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return [words[1] for line in lines if len(words := line.split()) > 1 and words[0] == "nameserver"]
