import contextlib
import socket
import threading
from collections.abc import Callable

_PIECE_BYTES = 1 << 16


class Gateway:
    """Stands between a client and a server on loopback, as if it were that server, or as a proxy that is asked to
    CONNECT. It can do something in the middle of an answer."""

    def __init__(self, port: int) -> None:
        self.connects: list[bytes] = []
        """Heads of the CONNECT requests."""
        self._port = port
        self._trigger: tuple[int, Callable[[], None]] | None = None
        self._losing = threading.Event()
        self._lock = threading.Lock()
        self._streams: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._start(self._accept)

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def once_after(self, count: int, action: Callable[[], None]) -> None:
        """Do it, in a thread of this gateway, when so many bytes of answers have gone by from now on."""
        with self._lock:
            self._trigger = (count, action)

    def lose_next_answer(self) -> None:
        """The server has done what it was asked, and nobody hears of it."""
        self._losing.set()

    def break_off(self) -> None:
        """Every connection ends; new ones can be made."""
        with self._lock:
            for stream in self._streams:
                with contextlib.suppress(OSError):
                    stream.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.break_off()
        for thread in self._threads:
            thread.join()

    def _start(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self._start(self._serve, self._listener.accept()[0])

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            self._hold(client)
            first = client.recv(_PIECE_BYTES)
            if first.startswith(b"CONNECT "):
                self.connects.append(first)
                client.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
                first = b""
            with socket.create_connection(("127.0.0.1", self._port)) as server:
                self._hold(server)
                server.sendall(first)
                answers = threading.Thread(target=self._pump, args=(server, client, self._count))
                answers.start()
                self._pump(client, server, lambda count: None)
                answers.join()

    def _hold(self, stream: socket.socket) -> None:
        with self._lock:
            self._streams.add(stream)

    def _pump(self, source: socket.socket, target: socket.socket, told: Callable[[int], None]) -> None:
        """Until one of the two ends; then both do, as they would without a gateway."""
        with contextlib.suppress(OSError):
            while piece := source.recv(_PIECE_BYTES):
                if told == self._count and self._losing.is_set():
                    self._losing.clear()
                    break
                target.sendall(piece)
                told(len(piece))
        for stream in (source, target):
            with contextlib.suppress(OSError):
                stream.shutdown(socket.SHUT_RDWR)

    def _count(self, count: int) -> None:
        with self._lock:
            if not self._trigger:
                return
            left, action = self._trigger[0] - count, self._trigger[1]
            self._trigger = (left, action) if left > 0 else None
        if left <= 0:
            action()
