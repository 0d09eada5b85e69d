"""How a gateway is found: its files in the home folder, its exit code when another runs, and its code version."""

GATEWAY_LOCK, GATEWAY_FACTS, GATEWAY_SOCKET = "gateway.lock", "gateway.json", "gateway.sock"
ANOTHER_GATEWAY = 3
"""Exit code when the home has a running gateway already."""
