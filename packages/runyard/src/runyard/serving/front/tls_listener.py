import asyncio
import socket
import ssl
from contextlib import suppress

from runyard.serving.front.connection import Connection
from runyard.serving.front.reception import Reception

_AT_ONCE = 64
_PAUSE_SECONDS = 1.0


class TlsListener:
    """Lets clients in by TLS. One that has not shaken hands yet counts as a connection: it costs as much as one."""

    def __init__(self, opened: socket.socket, context: ssl.SSLContext, reception: Reception) -> None:
        self._socket, self._context, self._reception = opened, context, reception
        self._loop = asyncio.get_running_loop()
        self._arriving: set[asyncio.Task[None]] = set()
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
            except OSError:  # no descriptor is left: whoever waits, waits
                self._loop.remove_reader(self._socket)
                self._loop.call_later(_PAUSE_SECONDS, self._listen_again)
                return
            self._let_in(accepted)

    def _listen_again(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.add_reader(self._socket, self._accept)

    def _let_in(self, accepted: socket.socket) -> None:
        arrival = _Arrival(accepted)
        if not self._reception.crowd.enter(arrival):
            self._reception.dispatcher.requests.count(503)
            accepted.close()
            return
        task = self._loop.create_task(self._shake_hands(accepted, arrival))
        self._arriving.add(task)
        task.add_done_callback(self._arriving.discard)

    async def _shake_hands(self, accepted: socket.socket, arrival: "_Arrival") -> None:
        reception = self._reception
        accepted.setblocking(False)
        try:
            await self._loop.connect_accepted_socket(
                lambda: _Secured(reception, arrival),
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=reception.limits.handshake_seconds,
            )
        except (OSError, EOFError):  # what it said is no TLS, it left, or it took too long
            accepted.close()
        finally:
            reception.crowd.leave(arrival)


class _Arrival:
    """Keeps the place of a connection until that is there."""

    def __init__(self, accepted: socket.socket) -> None:
        self._socket = accepted

    def look(self) -> None:
        """Its handshake has a time limit of its own."""

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        with suppress(OSError):  # it has left already
            self._socket.shutdown(socket.SHUT_RDWR)


class _Secured(Connection):
    def __init__(self, reception: Reception, arrival: _Arrival) -> None:
        super().__init__(reception)
        self._arrival = arrival

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._reception.crowd.leave(self._arrival)
        super().connection_made(transport)
