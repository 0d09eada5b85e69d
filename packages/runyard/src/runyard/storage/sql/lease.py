"""The lease of a database: one row that names the service that may write to it.

Taking it over raises the epoch. Every write compares the epoch in its own transaction (`Fence`), so a service that was
paused and resumes after a takeover can write nothing. On PostgreSQL the lease expires by the server's clock unless it
is renewed. On SQLite, which only one machine uses, the lease is held as long as its process lives and needs no
renewals.
"""

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, inspect, select, text, update
from sqlalchemy.exc import DBAPIError

from runyard.storage.sql.columns import AnyRow
from runyard.storage.sql.database import Database, boot_seconds
from runyard.storage.sql.schema import service_lease

LEASE_SECONDS = 10.0
_LONGEST_WAIT_MS = 2000
_KEY = service_lease.c.key == 1
_NOW = text("SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT) AS now").columns(
    now=service_lease.c.expires_at.type
)
_END_SESSIONS = text(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE application_name = :session AND pid <> pg_backend_pid()"
)


@dataclass(frozen=True)
class LeaseHolder:
    """Holder of a lease: its process, home and address."""

    host: str
    boot: str
    pid: int
    home: str
    address: str
    lock: str
    """Identity of the home's lock file, which is locked while a service of that home runs."""
    started: str
    """Start time of the process by the kernel, to tell it from a later process with the same pid."""
    pid_space: str
    """Namespace of `pid`."""

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, home {self.home}, at {self.address}"


class ServiceLease:
    """The lease for one process. `is_dead` returns True for a holder that is known to be gone."""

    def __init__(self, database: Database, holder: LeaseHolder, is_dead: Callable[[LeaseHolder], bool]) -> None:
        self._database, self._holder, self._is_dead = database, holder, is_dead
        self._renewing: Connection | None = None

    def take(self) -> LeaseHolder | None:
        """Take the lease, or return its holder if it is not free. Afterwards writes pass the fence."""
        if not self._database.is_sqlite:
            with self._database.read() as connection:
                found = self._row(connection)
                if found is not None and not self._is_free(connection, found):
                    return _holder(found)
                self._end_sessions(connection, found)
        asked_at = boot_seconds()
        with self._database.unchecked_write() as connection:
            holder = self._take(connection)
        if holder is None:
            until = math.inf if self._database.is_sqlite else asked_at + LEASE_SECONDS
            self._database.recent_runs.forget_all()
            self._database.fence.hold(until)
        return holder

    def renew(self) -> bool:
        """Renew for another LEASE_SECONDS; returns False if another service has taken it over. Raises DBAPIError.

        Uses its own connection, so that it does not wait for requests. Call it from one thread.
        """
        if self._database.is_sqlite:
            return True
        connection = self._renewing = self._renewing or self._database.engine.connect()
        renewed = update(service_lease).where(_KEY, service_lease.c.epoch == self._database.fence.epoch)
        asked_at = boot_seconds()
        try:
            found = connection.execute(renewed.values(expires_at=self._expiry(connection)))
            connection.commit()
        except DBAPIError:
            self._renewing = None
            connection.invalidate()
            connection.close()
            raise
        if found.rowcount != 1:
            self._database.fence.lose()
            return False
        self._database.fence.renew(asked_at + LEASE_SECONDS)
        return True

    def release(self) -> None:
        """Free the lease for another service. Does nothing if this process no longer holds it."""
        ours = update(service_lease).where(_KEY, service_lease.c.epoch == self._database.fence.epoch)
        self._database.fence.lose()
        with self._database.unchecked_write() as connection:
            connection.execute(ours.values(holder=None, expires_at=None))

    def holder(self) -> LeaseHolder | None:
        """The stored holder."""
        with self._database.read() as connection:
            found = self._row(connection)
            return None if found is None else _holder(found)

    def _take(self, connection: Connection) -> LeaseHolder | None:
        if not self._database.is_sqlite:
            connection.execute(text(f"SET LOCAL lock_timeout = {_LONGEST_WAIT_MS}"))
        first = {"key": 1, "epoch": 0, "holder": None, "expires_at": None}
        connection.execute(self._database.insert(service_lease).values(first).on_conflict_do_nothing())
        found = connection.execute(select(service_lease).where(_KEY).with_for_update()).one()
        if not self._is_free(connection, found):
            return _holder(found)
        taken = {"epoch": found.epoch + 1, "holder": self._facts(), "expires_at": self._expiry(connection)}
        connection.execute(update(service_lease).where(_KEY).values(taken))
        self._database.fence.epoch = found.epoch + 1
        return None

    def _row(self, connection: Connection) -> AnyRow | None:
        return connection.execute(select(service_lease).where(_KEY)).first()

    def _is_free(self, connection: Connection, found: AnyRow) -> bool:
        holder = _holder(found)
        if holder is None or self._is_dead(holder):
            return True
        return found.expires_at is not None and connection.execute(_NOW).scalar_one() >= found.expires_at

    def _expiry(self, connection: Connection) -> Any:
        """Expiry time of a renewed lease; None on SQLite."""
        if self._database.is_sqlite:
            return None
        return connection.execute(_NOW).scalar_one() + timedelta(seconds=LEASE_SECONDS)

    def _facts(self) -> Mapping[str, Any]:
        return {**vars(self._holder), "session": self._database.session}

    def _end_sessions(self, connection: Connection, found: AnyRow | None) -> None:
        """End the former holder's connections: if it was paused during a write, they still hold locks."""
        session = (found.holder or {}).get("session") if found is not None else None
        if session:
            with suppress(DBAPIError):  # the role may not be allowed to: then wait for the locks
                connection.execute(_END_SESSIONS, {"session": session})


def free_lease(database: Database) -> None:
    """Free the lease in a copy of a database: its holder writes to the original.

    The epoch is kept, so it continues to grow. Does nothing if the schema is older than leases.
    """
    if inspect(database.engine).has_table(service_lease.name):
        with database.unchecked_write() as connection:
            connection.execute(update(service_lease).values(holder=None, expires_at=None))


def _holder(found: AnyRow) -> LeaseHolder | None:
    facts = found.holder
    return None if facts is None else LeaseHolder(**{name: facts[name] for name in LeaseHolder.__dataclass_fields__})
