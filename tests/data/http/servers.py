"""Real servers on loopback that behave as a test tells them, badly too."""

import contextlib
import select
import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Request:
    method: str
    target: str
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def range(self) -> tuple[int, int | None] | None:
        text = self.headers.get("range", "").removeprefix("bytes=")
        first, _, last = text.partition("-")
        return (int(first), int(last) + 1 if last else None) if text else None


class Line:
    """The server's end of a connection."""

    def __init__(self, stream: socket.socket, ending: threading.Event) -> None:
        self._stream, self.ending = stream, ending
        self._reader = stream.makefile("rb")

    def request(self) -> Request | None:
        first = self._reader.readline().decode("latin-1").split()
        if len(first) < 2:
            return None
        headers = {}
        while line := self._reader.readline().decode("latin-1").strip():
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        return Request(first[0], first[1], headers)

    def send(self, raw: bytes) -> None:
        self._stream.sendall(raw)

    def answer(self, status: int, body: bytes = b"", *, head_only: bool = False, **headers: str) -> None:
        given = {"Content-Length": str(len(body)), **{name.replace("_", "-"): text for name, text in headers.items()}}
        lines = "".join(f"{name}: {text}\r\n" for name, text in given.items())
        self.send(f"HTTP/1.1 {status} Said\r\n{lines}\r\n".encode("latin-1") + (b"" if head_only else body))

    def stay_silent(self) -> None:
        self.ending.wait()

    def relay(self, beyond: socket.socket) -> None:
        """Carry bytes both ways until one side ends."""
        ends = {self._stream: beyond, beyond: self._stream}
        while True:
            ready, _, _ = select.select(list(ends), [], [])
            for end in ready:
                piece = end.recv(65536)
                if not piece:
                    return
                ends[end].sendall(piece)

    def drip(self, piece: bytes, seconds: float) -> None:
        """Send the piece again and again until the client goes."""
        with contextlib.suppress(OSError):
            while not self.ending.wait(seconds):
                self.send(piece)


Page = Callable[[Line, Request], None]
"""Answers one request. The connection is kept unless it raises Hangup."""


class Hangup(Exception):
    """The server closes the connection."""


class Server:
    """Serves `pages` by path; `asked` holds every request, `connections` counts them."""

    def __init__(self, certificate: ssl.SSLContext | None = None) -> None:
        self.pages: dict[str, Page] = {}
        self.asked: list[Request] = []
        self.connections = 0
        self._certificate = certificate
        self._ending = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        self._streams: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    @property
    def url(self) -> str:
        return f"{'https' if self._certificate else 'http'}://127.0.0.1:{self.port}"

    def targets(self, method: str = "GET") -> list[str]:
        return [request.target for request in self.asked if request.method == method]

    def close(self) -> None:
        self._ending.set()
        for stream in (self._listener, *self._streams):
            with contextlib.suppress(OSError):
                stream.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _accept(self) -> None:
        while not self._ending.is_set():
            try:
                stream, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._streams.append(stream)
            self._threads.append(threading.Thread(target=self._serve, args=(stream,)))
            self._threads[-1].start()

    def _serve(self, stream: socket.socket) -> None:
        with contextlib.suppress(OSError, Hangup), stream:
            if self._certificate:
                stream = self._certificate.wrap_socket(stream, server_side=True)
            with stream:
                line = Line(stream, self._ending)
                while request := line.request():
                    self.asked.append(request)
                    self._page(request)(line, request)

    def _page(self, request: Request) -> Page:
        path = request.target.partition("?")[0]
        return self.pages.get(path) or self.pages.get("*") or (lambda line, request: line.answer(404))


def a_file(content: bytes, tag: str = '"1"', **headers: str) -> Page:
    """A page that serves a file as good servers do: parts, tags, If-Range."""

    def page(line: Line, request: Request) -> None:
        given = {**({"ETag": tag} if tag else {}), "Accept-Ranges": "bytes", **headers}
        head_only = request.method == "HEAD"
        wanted = request.range if request.headers.get("if-range", tag) == tag else None
        if wanted is None:
            return line.answer(200, content, head_only=head_only, **given)
        start, end = wanted
        if start >= len(content):
            return line.answer(416, Content_Range=f"bytes */{len(content)}")
        part = content[start:end]
        place = f"bytes {start}-{start + len(part) - 1}/{len(content)}"
        line.answer(206, part, head_only=head_only, Content_Range=place, **given)

    return page


def cut(page: Page, *after: int) -> Page:
    """The page, whose first answers with a body break off after so many bytes of it."""
    left = list(after)

    def broken(line: Line, request: Request) -> None:
        if request.method == "HEAD" or not left:
            return page(line, request)
        page(ShortLine(line, left.pop(0)), request)
        raise Hangup

    return broken


class ShortLine(Line):
    """Passes on the head of an answer and the beginning of its body."""

    def __init__(self, line: Line, body_bytes: int) -> None:
        self._line, self._body_bytes = line, body_bytes

    def send(self, raw: bytes) -> None:
        head, end, body = raw.partition(b"\r\n\r\n")
        self._line.send(head + end + body[: self._body_bytes])


def in_turn(*pages: Page) -> Page:
    """Each request that is no HEAD gets the next of the pages, and the last one from then on."""
    left = list(pages)

    def page(line: Line, request: Request) -> None:
        (left.pop(0) if len(left) > 1 and request.method != "HEAD" else left[0])(line, request)

    return page


def status(code: int, **headers: str) -> Page:
    return lambda line, request: line.answer(code, **headers)


def raw(content: bytes) -> Page:
    """Exactly these bytes, then the end of the connection."""

    def page(line: Line, request: Request) -> None:
        line.send(content)
        raise Hangup

    return page
