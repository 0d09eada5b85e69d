import hashlib
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

_RANGE = re.compile(r"bytes=(\d+)-(\d*)")
GATE_SECONDS = 60


class Zeros:
    """So many bytes, which take no room."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, part: slice) -> bytes:
        return bytes(len(range(*part.indices(self._size))))


class WebServer:
    """A real server on loopback that gives parts of its pages, with faults that a test sets."""

    def __init__(self) -> None:
        self.pages: dict[str, bytes | Zeros] = {}
        self.answers: dict[str, int] = {}
        """Statuses to answer with instead."""
        self.redirects: dict[str, str] = {}
        """Where such a page is said to be."""
        self.cuts: dict[str, float] = {}
        """How many times half of such a page comes, and then the end."""
        self.gates: dict[str, threading.Event] = {}
        """The second half of what is asked of such a page waits for its event."""
        self.asked: list[str] = []
        self.was_asked = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def etag(self, path: str) -> str:
        page = self.pages[path]
        known = page if isinstance(page, bytes) else str(len(page)).encode()
        return f'"{hashlib.sha256(known).hexdigest()[:16]}"'

    def close(self) -> None:
        for gate in self.gates.values():
            gate.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                server._answer(self)

            do_HEAD = do_GET

            def log_message(self, *args: object) -> None:
                pass

        return Handler

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        path = urlsplit(request.path).path
        self.asked.append(path)
        self.was_asked.set()
        if path in self.answers or path not in self.pages:
            self._send(request, self.answers.get(path, 404), {"Content-Length": "0"}, b"", None)
            return
        if path in self.redirects:
            self._send(request, 302, {"Content-Length": "0", "Location": self.redirects[path]}, b"", None)
            return
        body, status, headers = self.pages[path], 200, {"ETag": self.etag(path), "Accept-Ranges": "bytes"}
        wanted = _RANGE.fullmatch(request.headers.get("Range", ""))
        if wanted is not None and request.headers.get("If-Range", headers["ETag"]) == headers["ETag"]:
            start, end = int(wanted[1]), int(wanted[2] or len(body) - 1)
            headers["Content-Range"] = f"bytes {start}-{min(end, len(body) - 1)}/{len(body)}"
            body, status = body[start : end + 1], 206
        headers["Content-Length"] = str(len(body))
        if self.cuts.get(path) and request.command == "GET":
            self.cuts[path] -= 1
            body, request.close_connection = body[: len(body) // 2], True
        self._send(request, status, headers, body, self.gates.get(path))

    def _send(
        self,
        request: BaseHTTPRequestHandler,
        status: int,
        headers: dict[str, str],
        body: bytes | Zeros,
        gate: threading.Event | None,
    ) -> None:
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name, value)
        request.end_headers()
        if request.command == "HEAD":
            return
        try:
            middle = len(body) // 2 if gate else len(body)
            request.wfile.write(body[:middle])
            if gate:
                gate.wait(GATE_SECONDS)
                request.wfile.write(body[middle:])
        except OSError:
            request.close_connection = True  # the reader went away, as some tests want
