"""The access log: one line for each answered request, and the id by which log lines of a request are found."""

import itertools
import re
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from runyard.model.runs import AttemptId, run_of
from runyard.process_logs.lines import current_request, encoded, time_text
from runyard.process_logs.rotating_file import RotatingFile

COMPONENT = "access"
NO_ROUTE = "-"
CLIENT_WENT = 499
"""The status of a request whose client went before it had an answer."""
_SANE_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_GATHER_SECONDS = 0.2


class Answered(NamedTuple):
    """Of a request nothing but this is kept: no address, header, query or body, which may hold secrets."""

    at: float
    method: str
    route: str
    """The template of the route, as in /api/v1/runs/{run_id}."""
    status: int
    milliseconds: float
    caller: str
    """owner, run or node by the token; "-" for a request that showed none."""
    request_id: str
    run: str | None


class Request:
    """The request that is being answered, for log lines; see `process_logs.lines.RequestFacts`."""

    __slots__ = ("_scope", "request_id")

    def __init__(self, request_id: str, scope: Scope) -> None:
        self.request_id, self._scope = request_id, scope

    @property
    def run(self) -> str | None:
        named = self._scope.get("path_params") or {}
        attempt = named.get("attempt_id")
        return named.get("run_id") or (run_of(AttemptId(attempt)) if attempt else None)


class RequestIds:
    """Middleware: gives every request an id, or keeps the one in its X-Request-Id, returns it in that header and
    tells `answered` of each request once it is over."""

    def __init__(self, app: ASGIApp, answered: Callable[[Answered], None]) -> None:
        self._app, self._answered = app, answered
        self._start, self._numbers = secrets.token_hex(4), itertools.count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began, status = time.perf_counter(), CLIENT_WENT
        request = Request(self._id_of(scope), scope)
        header = (b"x-request-id", request.request_id.encode("ascii"))

        async def marked(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), header]
            await send(message)

        current_request.set(request)
        try:
            await self._app(scope, receive, marked)
        finally:
            took = (time.perf_counter() - began) * 1000
            caller = scope.get("state", {}).get("caller")
            self._answered(
                Answered(
                    at=time.time(),
                    method=scope["method"],
                    route=getattr(scope.get("route"), "path", NO_ROUTE),
                    status=status,
                    milliseconds=took,
                    caller=caller.role if caller else NO_ROUTE,
                    request_id=request.request_id,
                    run=request.run,
                )
            )

    def _id_of(self, scope: Scope) -> str:
        for name, value in scope["headers"]:
            if name == b"x-request-id" and _SANE_ID.fullmatch(value):
                return str(value.decode("ascii"))
        return f"{self._start}-{next(self._numbers):x}"


class AccessLog:
    """Writes lines from a thread of its own, a few times a second, so that no request waits for the disk. A kill
    loses the last of them."""

    def __init__(self, file: RotatingFile, *, errors_only: bool = False) -> None:
        self._file, self._errors_only = file, errors_only
        self._waiting: deque[Answered] = deque(maxlen=100_000)  # a disk that hangs must not fill the memory
        self._has_some, self._is_closed = threading.Event(), False
        self._thread: threading.Thread | None = None

    def note(self, answered: Answered) -> None:
        if self._errors_only and answered.status < 500:
            return
        self._waiting.append(answered)
        if not self._has_some.is_set():
            self._has_some.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="access-log", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Write what is waiting, and no more after that."""
        self._is_closed = True
        self._has_some.set()
        if self._thread is not None:
            self._thread.join(10)

    def _work(self) -> None:
        while not self._is_closed:
            self._has_some.wait()
            if not self._is_closed:
                time.sleep(_GATHER_SECONDS)
            self._has_some.clear()
            self._file.write(b"".join(map(_line, self._drained())))

    def _drained(self) -> Iterable[Answered]:
        while self._waiting:
            yield self._waiting.popleft()


def _line(answered: Answered) -> bytes:
    return encoded(
        {
            "time": time_text(answered.at),
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
