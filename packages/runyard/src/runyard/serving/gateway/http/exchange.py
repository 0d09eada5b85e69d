"""One HTTP request and its answer."""

import re
from typing import Protocol

import orjson

from runyard.serving.gateway.dispatch.request import Refusal, ScoringRequest
from runyard.serving.gateway.http.port_state import PortState
from runyard.serving.gateway.http.response_head import JSON, field_lines, has_body, message, status_line
from runyard.serving.gateway.http.routes import RouteKind, Target
from runyard.serving.workers.frames import WorkerAnswer

Headers = list[tuple[bytes, bytes]]
_VALID_ID = re.compile(rb"[\x21-\x7e]{1,128}")
_NOT_FAILED = b"x-ms-run-function-failed: False\r\n"
_FAILED = b"x-ms-run-function-failed: True\r\n"
_WORKER_ERRORS = (500, 502, 504)
_LOGGED_BYTES = 500
LARGE_ANSWER_BYTES = 64 * 1024
"""Smaller answers are always sent, even when clients have too many unread bytes."""
_TOO_MANY_UNSENT = Refusal(503, "Answers that clients have not taken yet hold too many bytes. Send it again later.", 1)
_CLOSE, _KEEP = b"Connection: close\r\n", b"Connection: keep-alive\r\n"


class ResponseSink(Protocol):
    def write(self, exchange: "Exchange", head: bytes, body: bytes) -> None:
        """Send the next answer."""


class Exchange(ScoringRequest):
    """Life of one request: checked by its head, receives its body, starts when the requests before it on its connection
    are answered, and answers once."""

    __slots__ = (
        "_client",
        "_extra",
        "_headers",
        "_held",
        "_method",
        "_parts",
        "_refusal",
        "_request_id",
        "_state",
        "_target",
        "fields",
        "is_begun",
        "keeps_alive",
        "received",
    )

    def __init__(self, client: ResponseSink, state: PortState, method: str, target: Target, headers: Headers) -> None:
        super().__init__(b"", is_plain=method == "POST" and not target.query)
        self._client, self._state = client, state
        self._method, self._target, self._headers = method, target, headers
        self.fields = fields = dict(headers)
        self.keeps_alive = True
        self.is_begun = False
        self.received = 0
        self._parts: list[bytes] | None = None
        self._held = 0
        self._refusal: Refusal | None = None
        given = fields.get(b"x-ms-request-id")
        self._request_id = given if given and _VALID_ID.fullmatch(given) else state.ids.next()
        self._extra = b""
        if target.route is not None and target.route.kind is not RouteKind.SCORE:
            self.is_plain = False

    @property
    def is_refused(self) -> bool:
        return self._refusal is not None

    def admit(self) -> None:
        """Check the head: refuse the request, or reserve bytes for its Content-Length."""
        refusal = self._head_refusal()
        if refusal is None and (length := self.fields.get(b"content-length")):
            refusal = self._size_refusal(int(length))
        self._refusal = refusal

    def refuse(self, refusal: Refusal) -> None:
        """Answer with this in its turn, and keep no more of its body."""
        self._refusal = refusal
        self._release()

    def gather(self, chunk: bytes) -> None:
        """Add a chunk of the body; refuses the request when the body is too large."""
        self.received += len(chunk)
        if self._refusal is not None:
            return
        if self.received > self._held:
            refusal = self._size_refusal(self.received)
            if refusal is not None:
                self.refuse(refusal)
                return
        if not self.body:
            self.body = chunk
        elif self._parts is None:
            self._parts = [self.body, chunk]
        else:
            self._parts.append(chunk)

    def complete(self) -> None:
        """Join the body, which has arrived completely."""
        if self._parts is not None:
            self.body, self._parts = b"".join(self._parts), None

    def begin(self) -> None:
        self.is_begun = True
        if self._refusal is not None:
            self._state.dispatcher.requests.count(self._refusal.status)
            self.refused(self._refusal)
        elif self._is_for_worker():
            self._state.dispatcher.submit(self)
        else:
            self._answer_locally()

    def drop(self) -> None:
        """Release everything: the client has disconnected."""
        if self.is_begun and not self.is_over:
            self._state.dispatcher.drop(self)
        self._release()

    def head(self) -> bytes:
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in self._headers]
        path, query = self._target.path, self._target.query
        return orjson.dumps({"method": self._method, "path": path, "query": query, "headers": headers})

    def answered(self, answer: WorkerAnswer) -> None:
        _, status, microseconds, head, body = answer
        if status >= 500:
            self._log_failure(status, body[:_LOGGED_BYTES].decode("utf-8", "replace"))
        if len(body) > LARGE_ANSWER_BYTES and not self._state.dispatcher.unsent.has(len(body)):
            self.refused(_TOO_MANY_UNSENT)
            return
        lines = b"x-ms-run-fn-exec-ms: %.3f\r\n" % (microseconds / 1000)
        if head:
            self._write(status, lines + worker_lines(head), body)
        else:
            verdict = _NOT_FAILED if status < 500 else _FAILED
            self._write(status, lines + verdict + b"Content-Type: application/json\r\n", body)

    def refused(self, refusal: Refusal) -> None:
        if refusal.status in _WORKER_ERRORS:
            self._log_failure(refusal.status, refusal.message)
        fields = []
        if refusal.retry_seconds:
            fields.append(("Retry-After", str(refusal.retry_seconds)))
        if refusal.status == 401:
            fields.append(("WWW-Authenticate", f'Bearer realm="{self._state.realm}"'))
        if refusal.status == 405:
            fields.append(("Allow", self._allowed()))
        self._respond(refusal.status, JSON, message(refusal.message), *fields)

    def _log_failure(self, status: int, message: str) -> None:
        line = " ".join(message.split())
        self._state.log_line(f"Request {self._request_id.decode('ascii')} was answered with {status}: {line}")

    def _head_refusal(self) -> Refusal | None:
        state, fields = self._state, self.fields
        if len(fields) != len(self._headers) and sum(name == b"host" for name, _ in self._headers) > 1:
            return Refusal(400, "The request has more than one Host header.")
        refusal = state.hosts.refusal(fields.get(b"host"))
        if refusal is not None:
            return refusal
        if b"origin" in fields or b"x-ms-client-request-id" in fields:
            self._extra = self._extra_lines()
        route = self._target.route
        if not (state.keys.is_open or self._is_preflight() or (route and route.kind is RouteKind.HEALTH)):
            refusal = state.keys.refusal(fields.get(b"authorization"))
            if refusal is not None:
                return refusal
        if fields.get(b"expect", b"100-continue").lower() != b"100-continue":
            return Refusal(417, "The only Expect header that is understood is 100-continue.")
        return state.refusal(self._method, self._target, fields)

    def _size_refusal(self, size: int) -> Refusal | None:
        most = self._state.body_bytes
        if size > most:
            return Refusal(413, f"The body is larger than {most} bytes, the most that this service takes.")
        if not self._state.dispatcher.request_budget.take(size - self._held):
            return Refusal(503, "The requests that are waiting hold too many bytes already. Send it again later.", 1)
        self._held = size
        return None

    def _is_preflight(self) -> bool:
        return self._method == "OPTIONS" and b"access-control-request-method" in self.fields

    def _is_for_worker(self) -> bool:
        route = self._target.route
        if route is None or route.kind not in (RouteKind.SCORE, RouteKind.MODEL):
            return False
        return self._method != "OPTIONS" or (not self._is_preflight() and "OPTIONS" in self._state.methods(route))

    def _answer_locally(self) -> None:
        state, route = self._state, self._target.route
        if self._method == "OPTIONS":
            status, kind, body = 200, b"text/plain", b""
        elif route is not None and route.kind is RouteKind.SWAGGER:
            status, kind, body = 200, JSON, state.swagger(self._target.query)
        elif (outage := state.health()) is not None:
            state.dispatcher.requests.count(outage.status)
            self.refused(outage)
            return
        else:
            status, kind, body = 200, b"text/plain; charset=utf-8", b"Healthy"
        state.dispatcher.requests.count(status)
        self._respond(status, kind, body, *([("Allow", self._allowed())] if self._method == "OPTIONS" else ()))

    def _allowed(self) -> str:
        route = self._target.route
        return ", ".join(sorted({*(self._state.methods(route) if route else ()), "OPTIONS"}))

    def _extra_lines(self) -> bytes:
        client_id = self.fields.get(b"x-ms-client-request-id", b"")
        fields = self._state.cross_origin.fields(self.fields.get(b"origin"), is_preflight=self._is_preflight())
        if _VALID_ID.fullmatch(client_id):
            fields.append(("x-ms-client-request-id", client_id.decode("latin-1")))
        return field_lines(fields)

    def _respond(self, status: int, content_type: bytes, body: bytes, *fields: tuple[str, str]) -> None:
        self._write(status, field_lines(fields) + b"Content-Type: %b\r\n" % content_type, body)

    def _write(self, status: int, lines: bytes, body: bytes) -> None:
        self._release()
        size = b"Content-Length: %d\r\n\r\n" % len(body) if has_body(status) else b"\r\n"
        if self._method == "HEAD" or not has_body(status):
            body = b""
        if not self.keeps_alive:
            lines += _CLOSE
        elif b"connection" in self.fields:
            lines += _KEEP
        if self.assigned_version is not None:
            lines += self.assigned_version.field
        head = b"%bx-ms-request-id: %b\r\n%b%b%b" % (status_line(status), self._request_id, self._extra, lines, size)
        self._client.write(self, head, body)

    def _release(self) -> None:
        if self._held:
            self._state.dispatcher.request_budget.give_back(self._held)
            self._held = 0
        self._parts, self.body = None, b""


def worker_lines(head: bytes) -> bytes:
    """Header lines from the JSON head of a worker's answer; invalid ones are left out."""
    try:
        fields = [(str(name), str(value)) for name, value in orjson.loads(head)["headers"]]
    except (ValueError, KeyError, TypeError):
        fields = []
    names = {name.lower() for name, _ in fields}
    lines = field_lines(fields)
    if "content-type" not in names:
        lines += b"Content-Type: application/json\r\n"
    return lines if "x-ms-run-function-failed" in names else lines + _NOT_FAILED
