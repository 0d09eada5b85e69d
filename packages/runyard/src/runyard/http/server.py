import contextlib
import errno
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from runyard.errors import InvalidArgument

GRACE_SECONDS = 5
BACKLOG = 1024


def listen(host: str, port: int, *, last: int = 0) -> socket.socket:
    """A listening socket: on `port` if one is given, else on the last one if it is free, else on any."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for candidate in [port] if port else [last, 0]:
        opened = socket.socket(family, socket.SOCK_STREAM)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            opened.bind((host, candidate))
            opened.listen(BACKLOG)
        except (OSError, OverflowError) as problem:
            opened.close()
            if candidate and not port:
                continue
            taken = getattr(problem, "errno", None) == errno.EADDRINUSE
            raise InvalidArgument(
                f"The service cannot listen on {host}:{candidate}: {'it is taken' if taken else problem}.",
                hint="Choose another port, or none.",
            ) from None
        return opened
    raise AssertionError("the last candidate either listens or raises")


class HttpServer:
    """Serves an app until told to stop, or until it was idle for so long. `None` means it never is."""

    def __init__(self, listening: socket.socket, *, idle_seconds: float | None) -> None:
        self._socket, self._idle_seconds = listening, idle_seconds
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
        """Blocks. `on_started` is called once requests are answered, `on_stopping` before open answers are awaited."""
        activity = _Activity(app)
        config = uvicorn.Config(
            activity,
            loop="uvloop",
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
        self._server = _Server(config, on_started, on_stopping)
        done = threading.Event()
        watching = threading.Thread(target=self._watch, args=(activity, is_busy, done), daemon=True)
        watching.start()
        for number in (signal.SIGTERM, signal.SIGINT):
            # uvicorn raises the signal that stopped it once more at its end; the default would end us there.
            signal.signal(number, lambda *_: None)
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
    def __init__(self, config: uvicorn.Config, on_started: Callable[[], None], on_stopping: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_started, self._on_stopping = on_started, on_stopping

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._on_stopping()
        await super().shutdown(sockets)


class _Activity:
    """Knows when the last request ended, and that none is open now."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._open = 0
        self._last = time.monotonic()

    def touch(self) -> None:
        self._last = time.monotonic()

    def idle_seconds(self) -> float:
        return 0.0 if self._open else time.monotonic() - self._last

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1
            self.touch()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._counted():
            await self._app(scope, receive, send)
