import os
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


class TaskConnections:
    """Idle connections to the service of a home, which one task of a supervisor leaves to the next."""

    def __init__(self, home: Path) -> None:
        self._file, self._service = home / "service.json", ""
        self._pool = ConnectionPool()

    def for_task(self) -> ConnectionPool:
        """The connections, without those to a service that another one has replaced: it may be stopped, or take
        reports that nobody reads."""
        try:
            found = os.stat(self._file)
            service = f"{found.st_ino} {found.st_mtime_ns}"
        except FileNotFoundError:
            service = ""
        if service != self._service:
            self._pool.close()
        self._service = service
        return self._pool
