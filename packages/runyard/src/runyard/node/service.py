from pathlib import Path

from runyard.client import ServiceClient

_WAITS_FOR = frozenset({401, 501, 507})
"""A wrong token may be another service's that took the port over, and a full disk is emptied one day."""


def connect(home: Path, token: str, *, silence_seconds: float = 30.0) -> ServiceClient:
    """A client for a node, whose work must not be lost: what may pass in hours is ServiceAway too."""
    return ServiceClient(home, token, silence_seconds=silence_seconds, waits_for=_WAITS_FOR)
