"""Access log: one JSON line per answered request, and the request id that all log lines of a request carry."""

import itertools
import re
import secrets
import threading
import time
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from starlette.types import Scope

from runyard.core.records.runs import AttemptId, run_of
from runyard.process_logs.lines import encode_line, format_time
from runyard.process_logs.output import RotatingFile

COMPONENT = "access"
NO_ROUTE = "-"
CLIENT_CLOSED_REQUEST = 499
"""Status of a request whose client disconnected before the answer was sent."""
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_FLUSH_SECONDS = 0.2


class AnsweredRequest(NamedTuple):
    """Facts of one answered request. No address, header, query or body is kept: they may hold secrets."""

    at: float
    method: str
    route: str
    """Route template, such as /api/v1/runs/{run_id}."""
    status: int
    milliseconds: float
    caller: str
    """Role of the token: owner, run or node; "-" without a token."""
    request_id: str
    run: str | None


class LoggedRequest:
    """The current request, as log lines name it; implements `process_logs.lines.RequestFacts`."""

    __slots__ = ("_began", "_scope", "request_id")

    def __init__(self, request_id: str, scope: Scope) -> None:
        self.request_id, self._scope = request_id, scope
        self._began = time.perf_counter()

    def answered(self, status: int) -> AnsweredRequest:
        """The facts of this request, once it was answered with this status."""
        caller = self._scope["state"].get("caller")
        return AnsweredRequest(
            at=time.time(),
            method=self._scope["method"],
            route=getattr(self._scope.get("route"), "path", NO_ROUTE),
            status=status,
            milliseconds=(time.perf_counter() - self._began) * 1000,
            caller=caller.role if caller else NO_ROUTE,
            request_id=self.request_id,
            run=self.run,
        )

    @property
    def run(self) -> str | None:
        named = self._scope.get("path_params") or {}
        attempt = named.get("attempt_id")
        return named.get("run_id") or (run_of(AttemptId(attempt)) if attempt else None)


class RequestIds:
    """Gives every request an id: that of its X-Request-Id header, or a new one."""

    def __init__(self) -> None:
        self._start, self._numbers = secrets.token_hex(4), itertools.count(1)

    def id_of(self, scope: Scope) -> str:
        for name, value in scope["headers"]:
            if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
                return str(value.decode("ascii"))
        return f"{self._start}-{next(self._numbers):x}"


class AccessLog:
    """Writes lines from its own thread, a few times a second, so that no request waits for the disk.

    A process that is killed loses the lines of the last moment.
    """

    def __init__(self, file: RotatingFile, *, errors_only: bool = False) -> None:
        self._file, self._errors_only = file, errors_only
        self._waiting: deque[AnsweredRequest] = deque(maxlen=100_000)  # bounds memory while the disk hangs
        self._has_some, self._is_closed = threading.Event(), False
        self._thread: threading.Thread | None = None

    def note(self, answered: AnsweredRequest) -> None:
        if self._errors_only and answered.status < 500:
            return
        self._waiting.append(answered)
        if not self._has_some.is_set():
            self._has_some.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="access-log", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Write the queued lines and stop; later lines are dropped."""
        self._is_closed = True
        self._has_some.set()
        if self._thread is not None:
            self._thread.join(10)

    def _work(self) -> None:
        while not self._is_closed:
            self._has_some.wait()
            if not self._is_closed:
                time.sleep(_FLUSH_SECONDS)
            self._has_some.clear()
            self._file.write(b"".join(map(_line, self._drained())))

    def _drained(self) -> Iterable[AnsweredRequest]:
        while self._waiting:
            yield self._waiting.popleft()


def _line(answered: AnsweredRequest) -> bytes:
    return encode_line(
        {
            "time": format_time(answered.at),
            "level": "error" if answered.status >= 500 else "info",
            "component": COMPONENT,
            "method": answered.method,
            "route": answered.route,
            "status": answered.status,
            "milliseconds": round(answered.milliseconds, 1),
            "caller": answered.caller,
            "request": answered.request_id,
            **({"run": answered.run} if answered.run else {}),
        }
    )
