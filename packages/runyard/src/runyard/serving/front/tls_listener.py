import asyncio
import socket
import ssl
from contextlib import suppress

from runyard.serving.front.connection import Connection
from runyard.serving.front.reception import Reception

_AT_ONCE = 64
_PAUSE_SECONDS = 1.0


class TlsListener:
    """Accepts TLS clients. A client counts as a connection during its handshake already: it costs as much."""

    def __init__(self, opened: socket.socket, context: ssl.SSLContext, state: Reception) -> None:
        self._socket, self._context, self._state = opened, context, state
        self._loop = asyncio.get_running_loop()
        self._handshakes: set[asyncio.Task[None]] = set()
        opened.setblocking(False)
        self._loop.add_reader(opened, self._accept)

    def close(self) -> None:
        self._loop.remove_reader(self._socket)
        self._socket.close()

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                accepted, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # no file descriptor left: clients wait in the backlog
                self._loop.remove_reader(self._socket)
                self._loop.call_later(_PAUSE_SECONDS, self._resume_accepting)
                return
            self._start_handshake(accepted)

    def _resume_accepting(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.add_reader(self._socket, self._accept)

    def _start_handshake(self, accepted: socket.socket) -> None:
        pending = _PendingHandshake(accepted)
        if not self._state.connections.enter(pending):
            self._state.dispatcher.requests.count(503)
            accepted.close()
            return
        task = self._loop.create_task(self._handshake(accepted, pending))
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)

    async def _handshake(self, accepted: socket.socket, pending: "_PendingHandshake") -> None:
        state = self._state
        accepted.setblocking(False)
        try:
            await self._loop.connect_accepted_socket(
                lambda: _TlsConnection(state, pending),
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=state.limits.handshake_seconds,
            )
        except (OSError, EOFError):  # not TLS, disconnected, or too slow
            accepted.close()
        finally:
            state.connections.leave(pending)


class _PendingHandshake:
    """Holds the slot of a connection until its handshake is done."""

    def __init__(self, accepted: socket.socket) -> None:
        self._socket = accepted

    def check_timeouts(self) -> None:
        """Does nothing: the handshake has a timeout of its own."""

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        with suppress(OSError):  # disconnected already
            self._socket.shutdown(socket.SHUT_RDWR)


class _TlsConnection(Connection):
    def __init__(self, state: Reception, pending: _PendingHandshake) -> None:
        super().__init__(state)
        self._pending = pending

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._state.connections.leave(self._pending)
        super().connection_made(transport)
