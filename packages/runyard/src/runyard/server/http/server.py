import gc
import signal
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from runyard.core.errors import InvalidArgument
from runyard.core.listen_settings import listen_error, url_host
from runyard.server.http.listener import HttpListener, connection_limits

GRACE_SECONDS = 5
BACKLOG = 1024
OPTIONS: dict[str, Any] = {
    "loop": "uvloop",
    "http": "httptools",
    "ws": "none",
    "lifespan": "off",
    "log_config": None,
    "access_log": False,
    "server_header": False,
    "proxy_headers": False,  # ForwardedHeaders believes those whom the operator names
    "timeout_graceful_shutdown": GRACE_SECONDS,
}


def listen(host: str, port: int, *, last: int = 0) -> socket.socket:
    """Listening socket on `port` if given, else on `last` if that is free, else on any. Raises InvalidArgument."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for candidate in [port] if port else [last, 0]:
        opened = socket.socket(family, socket.SOCK_STREAM)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            opened.bind((host, candidate))
            opened.listen(BACKLOG)
        except (OSError, OverflowError, UnicodeError) as problem:
            opened.close()
            if candidate and not port:
                continue
            raise _cannot_listen(host, candidate, problem) from None
        return opened
    raise AssertionError("the last candidate either listens or raises")


def _cannot_listen(host: str, port: int, problem: Exception) -> InvalidArgument:
    why, hint = listen_error(problem)
    return InvalidArgument(f"The service cannot listen on {url_host(host)}:{port}: {why}.", hint=hint)


class HttpServer:
    """Serves an app until `stop`, or until it was idle for `idle_seconds` (None: for ever)."""

    def __init__(
        self, listening: socket.socket, *, idle_seconds: float | None, outside: HttpListener | None = None
    ) -> None:
        """`outside` is a second listener, for other machines."""
        self._socket, self._idle_seconds, self._outside = listening, idle_seconds, outside
        self._server: _Server | None = None

    def stop(self) -> None:
        if self._server is not None:
            self._server.should_exit = True

    def keep(self) -> None:
        self._idle_seconds = None

    def run(
        self,
        app: ASGIApp,
        *,
        is_busy: Callable[[], bool],
        on_started: Callable[[], None],
        on_stopping: Callable[[], None],
    ) -> None:
        """Serve; blocks. Calls `on_started` once requests are answered, `on_stopping` before open ones are awaited."""
        activity = _Activity(app)
        self._server = _Server(activity, self._outside, on_started, on_stopping)
        done = threading.Event()
        watching = threading.Thread(target=self._watch, args=(activity, is_busy, done), daemon=True)
        watching.start()
        for number in (signal.SIGTERM, signal.SIGINT):
            # uvicorn re-raises the signal that stopped it; the default handler would end the process there.
            signal.signal(number, lambda *_: None)
        # Long-lived objects need no further collection: scanning them costs a large response a third of its time.
        gc.freeze()
        # Rare enough for large responses, and often enough that garbage stays below some megabytes.
        gc.set_threshold(5_000, 20, 50)
        try:
            self._server.run(sockets=[self._socket])
        finally:
            done.set()

    def _watch(self, activity: "_Activity", is_busy: Callable[[], bool], done: threading.Event) -> None:
        while not done.wait(self._pause()):
            limit = self._idle_seconds
            if limit is None:
                continue
            if is_busy():
                activity.touch()
            elif activity.idle_seconds() >= limit:
                self.stop()

    def _pause(self) -> float:
        return 30.0 if self._idle_seconds is None else min(30.0, max(0.05, self._idle_seconds / 10))


class _Server(uvicorn.Server):
    def __init__(
        self,
        app: ASGIApp,
        outside: HttpListener | None,
        on_started: Callable[[], None],
        on_stopping: Callable[[], None],
    ) -> None:
        super().__init__(uvicorn.Config(app, **OPTIONS))
        self._app, self._outside = app, outside
        self._on_started, self._on_stopping = on_started, on_stopping

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup([])
        # All local clients share one address.
        here = [HttpListener(one, limits=connection_limits(share=1.0), is_outside=False) for one in sockets or ()]
        for listener in [*here, *([self._outside] if self._outside else [])]:
            self.servers.append(await listener.start(self._app, OPTIONS, self.server_state))
        self._on_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._on_stopping()
        await super().shutdown(sockets)


class _Activity:
    """Counts open requests and remembers when the last one ended."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._open = 0
        self._last = time.monotonic()

    def touch(self) -> None:
        self._last = time.monotonic()

    def idle_seconds(self) -> float:
        return 0.0 if self._open else time.monotonic() - self._last

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._open += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._open -= 1
            self.touch()
