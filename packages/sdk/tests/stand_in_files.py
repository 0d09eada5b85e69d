"""A service that serves files, for tests of downloads: it honours Range, and breaks off where it is told to."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from runyard_sdk.discovery import Service
from runyard_sdk.transport import Transport


class FileService:
    """`files` is {path: bytes}. `break_after` lists how many bytes each of the next answers sends before it breaks."""

    def __init__(self, files):
        self.files, self.break_after, self.ranges, self.honours_ranges = dict(files), [], [], True
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # else the body waits 40 ms for the receipt of the headers

            def do_GET(self):
                service.answer(self)

            def log_message(self, *arguments):
                """Quiet."""

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def transport(self):
        address = "http://127.0.0.1:{}".format(self._server.server_port)
        return Transport(find=lambda refused=None: Service(address, "token", fixed=True))

    def answer(self, request):
        content = self.files[request.path.split("/api/v1", 1)[1]]
        asked = request.headers.get("Range")
        self.ranges.append(asked)
        start = int(asked[len("bytes="):-1]) if asked and self.honours_ranges else 0
        request.send_response(206 if start else 200)
        request.send_header("Content-Length", str(len(content) - start))
        request.send_header("X-Runyard-Wire", "1")
        request.end_headers()
        end = start + self.break_after.pop(0) if self.break_after else len(content)
        request.wfile.write(content[start:end])
        request.close_connection = end < len(content)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._server.shutdown()
        self._server.server_close()
