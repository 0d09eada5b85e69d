"""Lease on the database: taken before anything is written, renewed by a thread, released at the end.

While another service holds it, this one stands by: it answers probes and health checks and refuses all else.
"""

import logging
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

from sqlalchemy.exc import DBAPIError

from runyard.errors import RunyardError, StandingBy
from runyard.lifecycle.discovery import Facts, boot_id, host_name, write_facts
from runyard.lifecycle.standby import Standby
from runyard.stores.database import Database
from runyard.stores.lease import LEASE_SECONDS, Holder, ServiceLease

_LOOK_SECONDS = 0.5
log = logging.getLogger("runyard.lifecycle.holding")


class Stopped(Exception):
    """The service was asked to stop while it stood by."""


class Holding:
    """The lease of one service, from standing by to losing or releasing it."""

    def __init__(self, home: Path, facts: Facts, listening: socket.socket, stop: Callable[[], None]) -> None:
        """`facts` are those of service.json; `stop` ends the service and must not block."""
        self._home, self._facts, self._socket, self._stop = home, facts, listening, stop
        self._lease: ServiceLease | None = None
        self._done = threading.Event()
        self.lost_to = ""
        """The service that took over the lease; "" while it is ours."""

    def hold(self, database: Database) -> None:
        """Block until this process holds the lease, standing by meanwhile. Raises Stopped."""
        me = this_process(self._home, str(self._facts["url"]))
        self._lease = ServiceLease(database, me, lambda other: _is_dead(other, me, is_shared=not database.is_sqlite))
        holder = self._lease.take()
        if holder is not None:
            self._stand_by(self._lease, holder)
        database.fence.on_lost = self._step_down
        threading.Thread(target=self._renew, args=(self._lease,), name="lease", daemon=True).start()

    def release(self) -> None:
        """Release the lease; quiet where it was never held, is lost, or the database does not answer."""
        self._done.set()
        if self._lease is not None and not self.lost_to:
            try:
                self._lease.release()
            except RunyardError as problem:
                log.warning("The lease of the database was not released: %s", problem)

    def _stand_by(self, lease: ServiceLease, holder: Holder) -> None:
        with Standby(self._socket, self._facts, self._home) as standby:
            found: Holder | None = holder
            while found is not None:
                if standby.holder != str(found):
                    standby.holder = str(found)
                    write_facts(self._home, {**self._facts, "stands_by": standby.holder})
                    log.info("This service stands by: %s holds the database.", found)
                if standby.is_stopped.wait(_LOOK_SECONDS):
                    raise Stopped
                try:
                    found = lease.take()
                except RunyardError as problem:
                    log.warning("The lease of the database could not be taken: %s", problem)
        log.info("This service takes the database over from %s.", standby.holder)

    def _renew(self, lease: ServiceLease) -> None:
        while not self._done.wait(LEASE_SECONDS / 3):
            try:
                if not lease.renew():
                    self._step_down()
                    return
            except DBAPIError as problem:  # no other service can take the lease while the database does not answer
                log.warning("The lease of the database could not be renewed: %s", problem.orig)

    def _step_down(self) -> None:
        """Stop the service because the lease is lost. Thread-safe and safe to repeat."""
        if self.lost_to or self._done.is_set() or self._lease is None:
            return
        self.lost_to = "another service"
        try:
            self.lost_to = str(self._lease.holder() or self.lost_to)
        except RunyardError:
            log.debug("Who holds the lease could not be read.")
        self._stop()

    def require(self) -> None:
        """Raise StandingBy where the lease was lost."""
        if self.lost_to:
            raise StandingBy(
                f"This service was away, and its database was taken over by {self.lost_to}.",
                hint="Started again, it stands by until that one ends.",
            )


def this_process(home: Path, address: str) -> Holder:
    lock = (home / "service.lock").stat()
    return Holder(
        host=host_name(),
        boot=boot_id(),
        pid=os.getpid(),
        home=str(home),
        address=address,
        lock=f"{lock.st_dev}:{lock.st_ino}",
        started=_started(os.getpid()),
        pid_space=_pid_space(),
    )


def _is_dead(other: Holder, me: Holder, *, is_shared: bool) -> bool:
    """Whether the holder is certainly gone. `is_shared`: other machines may use the database too."""
    if other.boot != me.boot:
        return not is_shared
    if other.lock == me.lock:
        return True  # this process holds the lock of that home now
    return other.pid_space == me.pid_space and _started(other.pid) != other.started


def _started(pid: int) -> str:
    """Start time of a process in ticks since boot; "" where it is gone or a zombie."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if state in "ZX" else fields[18]


def _pid_space() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""
