"""Lease on the database: taken before anything is written, renewed by a thread, released at the end.

While another service holds it, this one stands by: it answers probes and health checks and refuses all else.
"""

import hmac
import json
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

from sqlalchemy.exc import DBAPIError

from runyard.core.errors import RunyardError, StandingBy, Unauthorized, to_wire
from runyard.core.version import VERSION, WIRE
from runyard.server.lifecycle.discovery import Facts, boot_id, host_name, write_facts
from runyard.storage.sql.database import Database
from runyard.storage.sql.lease import LEASE_SECONDS, LeaseHolder, ServiceLease

_POLL_SECONDS = 0.5
log = logging.getLogger("runyard.server.lifecycle.lease")


class StoppedOnStandby(Exception):
    """The service was asked to stop while it stood by."""


class LeaseSession:
    """The lease of one service, from standing by to losing or releasing it."""

    def __init__(self, home: Path, facts: Facts, listening: socket.socket, stop: Callable[[], None]) -> None:
        """`facts` are those of service.json; `stop` ends the service and must not block."""
        self._home, self._facts, self._socket, self._stop = home, facts, listening, stop
        self._lease: ServiceLease | None = None
        self._done = threading.Event()
        self.lost_to = ""
        """The service that took over the lease; "" while it is ours."""

    def hold(self, database: Database) -> None:
        """Block until this process holds the lease, standing by meanwhile. Raises StoppedOnStandby."""
        me = current_holder(self._home, str(self._facts["url"]))
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

    def _stand_by(self, lease: ServiceLease, holder: LeaseHolder) -> None:
        with StandbyServer(self._socket, self._facts, self._home) as standby:
            found: LeaseHolder | None = holder
            while found is not None:
                if standby.holder != str(found):
                    standby.holder = str(found)
                    write_facts(self._home, {**self._facts, "stands_by": standby.holder})
                    log.info("This service stands by: %s holds the database.", found)
                if standby.is_stopped.wait(_POLL_SECONDS):
                    raise StoppedOnStandby
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


def current_holder(home: Path, address: str) -> LeaseHolder:
    lock = (home / "service.lock").stat()
    return LeaseHolder(
        host=host_name(),
        boot=boot_id(),
        pid=os.getpid(),
        home=str(home),
        address=address,
        lock=f"{lock.st_dev}:{lock.st_ino}",
        started=_start_time(os.getpid()),
        pid_space=_pid_namespace(),
    )


def _is_dead(other: LeaseHolder, me: LeaseHolder, *, is_shared: bool) -> bool:
    """Whether the holder is certainly gone. `is_shared`: other machines may use the database too."""
    if other.boot != me.boot:
        return not is_shared
    if other.lock == me.lock:
        return True  # this process holds the lock of that home now
    return other.pid_space == me.pid_space and _start_time(other.pid) != other.started


def _start_time(pid: int) -> str:
    """Start time of a process in ticks since boot; "" where it is gone or a zombie."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if state in "ZX" else fields[18]


def _pid_namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


_MAX_BODY_BYTES = 1 << 20
_PATH = f"/api/v{WIRE}"


class StandbyServer:
    """Small HTTP server on the service's socket while it stands by. POST /shutdown and signals set `is_stopped`."""

    def __init__(self, listening: socket.socket, facts: Facts, home: Path) -> None:
        self.facts, self.home = facts, home
        self.holder = ""
        self.is_stopped = threading.Event()
        standby = self

        class Handler(_StandbyHandler):
            owner = standby

        self._server = ThreadingHTTPServer(("", 0), Handler, bind_and_activate=False)
        self._server.socket.close()
        self._server.socket = listening.dup()  # both share one backlog: requests wait there while the service starts
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="standby", daemon=True)
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "StandbyServer":
        for number in (signal.SIGTERM, signal.SIGINT):
            self._before[number] = signal.signal(number, lambda *_: self.is_stopped.set())
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        for number, handler in self._before.items():
            signal.signal(number, handler)


class _StandbyHandler(BaseHTTPRequestHandler):
    owner: StandbyServer
    timeout = 10

    def _answer(self) -> None:
        self.rfile.read(min(int(self.headers.get("Content-Length") or 0), _MAX_BODY_BYTES))
        status, body = self._probed() or self._answered()
        payload = json.dumps(body).encode()
        self.send_response(status)
        for name, value in (("Content-Type", "application/json"), ("X-Runyard-Wire", str(WIRE))):
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def _probed(self) -> tuple[int, dict[str, Any]] | None:
        """Response to a probe. Probes show no token, so the holder is not named."""
        if (self.command, self.path) == ("GET", "/healthz"):
            return 200, {"status": "ok"}
        if (self.command, self.path) == ("GET", "/readyz"):
            return 503, {"status": "not ready", "reason": "standing by"}
        return None

    def _answered(self) -> tuple[int, dict[str, Any]]:
        token = self.headers.get("Authorization", "").removeprefix("Bearer ").strip()
        if not hmac.compare_digest(token.encode(), str(self.owner.facts["token"]).encode()):
            return _refused(self._standing_by() if token else Unauthorized("The token is missing."))
        if (self.command, self.path) == ("GET", f"{_PATH}/health"):
            facts = {"version": VERSION, "wire": WIRE, "pid": os.getpid(), "home": str(self.owner.home)}
            return 200, {**facts, "shares_files": False, "stands_by": self.owner.holder}
        if (self.command, self.path) == ("POST", f"{_PATH}/shutdown"):
            self.owner.is_stopped.set()
            return 202, {"stopping": True}
        return _refused(self._standing_by())

    def _standing_by(self) -> StandingBy:
        return StandingBy(
            f"This service stands by: {self.owner.holder} holds the database.",
            hint="Ask that one, or stop it: this one then takes over.",
        )

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _answer

    def log_message(self, *arguments: object) -> None:
        """Log nothing."""


def _refused(error: RunyardError) -> tuple[int, dict[str, Any]]:
    return error.status, to_wire(error)
