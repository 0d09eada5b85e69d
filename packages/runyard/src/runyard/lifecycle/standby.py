import hmac
import json
import os
import signal
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

from runyard.errors import RunyardError, StandingBy, Unauthorized, to_wire
from runyard.lifecycle.discovery import Facts
from runyard.version import VERSION, WIRE

_MOST_BODY_BYTES = 1 << 20
_PATH = f"/api/v{WIRE}"


class Standby:
    """Small HTTP server on the service's socket while it stands by. POST /shutdown and signals set `is_stopped`."""

    def __init__(self, listening: socket.socket, facts: Facts, home: Path) -> None:
        self.facts, self.home = facts, home
        self.holder = ""
        self.is_stopped = threading.Event()
        standby = self

        class Handler(_Handler):
            owner = standby

        self._server = ThreadingHTTPServer(("", 0), Handler, bind_and_activate=False)
        self._server.socket.close()
        self._server.socket = listening.dup()  # both share one backlog: requests wait there while the service starts
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="standby", daemon=True)
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Standby":
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


class _Handler(BaseHTTPRequestHandler):
    owner: Standby
    timeout = 10

    def _answer(self) -> None:
        self.rfile.read(min(int(self.headers.get("Content-Length") or 0), _MOST_BODY_BYTES))
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
