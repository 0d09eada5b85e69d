"""Files on a web server of the test's own."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class WebFiles:
    """`files` is {path: bytes}; a path that is not in it answers 404."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                body = outer.files.get(self.path)
                self.send_response(200 if body is not None else 404)
                self.send_header("Content-Length", str(len(body or b"")))
                self.send_header("ETag", f'"{hash(body)}"')
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(body or b"")

            do_HEAD = do_GET

            def log_message(self, *arguments: object) -> None:
                """Quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def put(self, path: str, content: bytes) -> str:
        """The address of a file that is there from now on."""
        self.files[path] = content
        return f"http://127.0.0.1:{self._server.server_port}{path}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
