"""The gateway's own files in the home folder, and how one says that another was first."""

GATEWAY_LOCK, GATEWAY_FACTS, GATEWAY_SOCKET = "gateway.lock", "gateway.json", "gateway.sock"
ANOTHER_GATEWAY = 3
"""Exit code of a gateway that found another in its place."""
