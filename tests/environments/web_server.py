import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


class WebServer:
    """A real server on loopback whose pages, tags and faults a test sets; it keeps what it was asked."""

    def __init__(self) -> None:
        self.pages: dict[str, bytes] = {}
        self.tags: dict[str, str] = {}
        self.redirects: dict[str, str] = {}
        self.answers: dict[str, int] = {}
        self.cuts: dict[str, list[int]] = {}
        """Bytes after which the answers to a path break off, one answer each."""
        self.asked: list[tuple[str, str]] = []
        """Each request's target as it was sent, and its Range header."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def bodies_sent(self, path: str) -> int:
        return sum(1 for target, _ in self.asked if urlsplit(target).path == path)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server._answer(self)

            def log_message(self, *args: object) -> None:
                pass

        return Handler

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        path = urlsplit(request.path).path
        wanted = request.headers.get("Range", "")
        self.asked.append((request.path, wanted))
        if path in self.redirects:
            return self._send(request, 302, {"Location": self.redirects[path]})
        if path in self.answers or path not in self.pages:
            return self._send(request, self.answers.get(path, 404), {})
        tag = self.tags.get(path, "")
        if tag and request.headers.get("If-None-Match") == tag:
            return self._send(request, 304, {})
        body, status = self.pages[path], 200
        if wanted and request.headers.get("If-Range") == tag:
            body, status = body[int(wanted.removeprefix("bytes=").rstrip("-")) :], 206
        headers = {"Content-Length": str(len(body)), **({"ETag": tag} if tag else {})}
        cuts = self.cuts.get(path)
        self._send(request, status, headers, body[: cuts.pop(0)] if cuts else body)

    def _send(self, request: BaseHTTPRequestHandler, status: int, headers: dict[str, str], body: bytes = b"") -> None:
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(body)
