from pathlib import Path

from runyard.client import ConnectionPool, ServiceClient

_RETRIED_STATUSES = frozenset({401, 501, 507})
"""A wrong token may mean that another service took over the port; a full disk may have space later."""


def connect_to_service(
    home: Path, token: str, *, silence_seconds: float = 30.0, connections: ConnectionPool | None = None
) -> ServiceClient:
    """Make a client for a supervisor. Statuses worth another try raise ServiceUnavailable, so no work is lost."""
    return ServiceClient(
        home, token, silence_seconds=silence_seconds, waits_for=_RETRIED_STATUSES, connections=connections
    )
