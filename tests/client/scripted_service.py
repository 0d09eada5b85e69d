"""A service on loopback that answers as a test tells it, one step for each request."""

import json
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from runyard.core.errors import RunyardError


class Seen(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    connection: int


@dataclass(frozen=True)
class Reply:
    """One answer. `closes`: the connection is closed behind it without a word; `promises`: its Content-Length, if it is
    to be another than the body's."""

    status: int = 200
    body: bytes = b"{}"
    closes: bool = False
    promises: int | None = None


@dataclass(frozen=True)
class HangUp:
    """Close the connection instead of an answer."""


@dataclass(frozen=True)
class Hold:
    """Answer only once `until` is set."""

    until: threading.Event


class Step(NamedTuple):
    """What happens to one request; `reads_body` False: it is answered before its body is read."""

    reply: Reply | HangUp | Hold
    reads_body: bool = True


def refusal(code: str, status: int, problem: str = "It is so.", hint: str = "Do this.") -> Reply:
    return Reply(status, json.dumps({"code": code, "problem": problem, "hint": hint, "facts": {}}).encode())


def refusal_of(error: type[RunyardError]) -> Reply:
    return refusal(error.code, error.status)


class ScriptedService:
    def __init__(self, home: Path) -> None:
        self.home, self.seen = home, list[Seen]()
        self.steps: deque[Step] = deque()
        service = self

        class Handler(_Handler):
            scripted = service

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def shutdown_request(self, request: Any) -> None:
                super().shutdown_request(request)
                service.closed.release()

            def handle_error(self, request: Any, client_address: Any) -> None:
                """A client that goes in the middle is no news here."""

        self.closed = threading.Semaphore(0)
        """Released for each connection that this side has closed."""
        self._server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        home.mkdir(exist_ok=True)
        (home / "service.json").write_text(json.dumps({"url": self.url, "token": "t"}))

    def answers(self, *replies: Reply | HangUp | Hold) -> None:
        """Answer the next requests so; later ones get 200 and {}."""
        self.steps = deque(Step(reply) for reply in replies)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def scripted(home: Path) -> Iterator[ScriptedService]:
    service = ScriptedService(home)
    try:
        yield service
    finally:
        service.close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    scripted: ScriptedService

    def _serve(self) -> None:
        step = self.scripted.steps.popleft() if self.scripted.steps else Step(Reply())
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)) if step.reads_body else b""
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.scripted.seen.append(Seen(self.command, self.path, headers, body, self.client_address[1]))
        reply = step.reply
        if isinstance(reply, Hold):
            reply.until.wait(60)
            reply = Reply()
        if isinstance(reply, HangUp):
            self.close_connection = True
            return
        self.send_response(reply.status)
        self.send_header("Content-Length", str(len(reply.body) if reply.promises is None else reply.promises))
        self.end_headers()
        self.wfile.write(reply.body)
        self.close_connection = reply.closes or not step.reads_body

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = _serve

    def log_message(self, format: str, *args: object) -> None:
        return
