"""How a gateway is found: its files in the home folder, its exit code when another runs, and its code version."""

from runyard.node.version import version_of

GATEWAY_LOCK, GATEWAY_FACTS, GATEWAY_SOCKET = "gateway.lock", "gateway.json", "gateway.sock"
ANOTHER_GATEWAY = 3
"""Exit code when the home has a running gateway already."""

_PACKAGES = ("serving", "node", "environments", "storage/blobs", "core", "process_logs")


def gateway_version() -> str:
    """Version of the installed code that a gateway runs; differs for every change of it, released or not."""
    return version_of(_PACKAGES)
