import os
from pathlib import Path

from runyard.mounting import kernel

RESOLVER_SETTINGS = Path("/etc/resolv.conf")
# Where systemd-resolved, the usual server on a loopback address, writes its upstream servers.
SERVERS_BEHIND = Path("/run/systemd/resolve/resolv.conf")
_MS_BIND = 0x1000
_FORWARDED = "127.0.0.1"


def why_no_names() -> str:
    """Why names cannot be looked up in a private network; "" when they can."""
    servers = _servers(RESOLVER_SETTINGS)
    if _are_reached(servers) or (SERVERS_BEHIND.exists() and _are_reached(_servers(SERVERS_BEHIND))):
        return ""
    return f"This machine looks names up at {servers[0]}, which a private network does not reach."


def look_names_up_behind() -> None:
    """Have this process and its children ask the upstream name servers, where /etc/resolv.conf names a loopback
    address. For a process in a private network. OSError where that is not allowed."""
    if _are_reached(_servers(RESOLVER_SETTINGS)):
        return
    if not kernel.unshare_mounts():
        raise PermissionError("mounts of its own are not allowed to this process")
    kernel.mount(SERVERS_BEHIND, os.path.realpath(RESOLVER_SETTINGS), "none", _MS_BIND)


def _are_reached(servers: list[str]) -> bool:
    """Tell whether the first server is outside, or is forwarded. Without servers nothing is looked up."""
    return not servers or servers[0] == _FORWARDED or not (servers[0].startswith("127.") or servers[0] == "::1")


def _servers(settings: Path) -> list[str]:
    try:
        lines = settings.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return [words[1] for line in lines if len(words := line.split()) > 1 and words[0] == "nameserver"]
