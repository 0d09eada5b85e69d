"""A service for tests of the SDK alone: it answers each route with what it was told, and keeps what it was asked."""

import json
import os
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import ThreadingMixIn

from azureml.core import Workspace


class ThreadedServer(ThreadingMixIn, HTTPServer):
    daemon_threads = True
    block_on_close = False  # the client's kept connection stays open for as long as its process


BREAK = object()


class StandInService:
    """`answers` is {"METHOD path": [answer, ...]}, the last of which stays: JSON, bytes, (status, JSON) or BREAK, which
    closes the connection in place of an answer.

    Paths are those below the workspace. `asked` lists (method, path, query, body) in the order they came.
    """

    def __init__(self):
        self.answers, self.asked = {}, []
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # else the body waits 40 ms for the receipt of the headers

            def answer(self):
                service.answer(self)

            do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = answer

            def log_message(self, *arguments):
                """Quiet."""

        self._server = ThreadedServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        self._before = {name: os.environ.get(name) for name in ("RUNYARD_URL", "RUNYARD_TOKEN")}
        os.environ.update(RUNYARD_URL=self.address, RUNYARD_TOKEN="secret")
        self.workspace = Workspace("s", "r", "work", _record={
            "name": "work", "id": "1", "subscription_id": "s", "resource_group": "r", "location": "local"})

    @property
    def address(self):
        return "http://127.0.0.1:{}".format(self._server.server_port)

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    def answer(self, request):
        path, _, query = request.path.partition("?")
        for base in ("/api/v1/workspaces/work/", "/api/v1/"):
            if path.startswith(base):
                path = path[len(base):]
                break
        content = request.rfile.read(int(request.headers.get("Content-Length", 0)))
        self.asked.append((request.command, path, query, content))
        known = self.answers.get("{} {}".format(request.command, path))
        if known is None:
            given = (404, {"code": "not_found", "problem": "There is no " + path + ".", "hint": "", "facts": {}})
        else:
            given = known.pop(0) if len(known) > 1 else known[0]
        if given is BREAK:
            request.close_connection = True
            return
        status, body = given if isinstance(given, tuple) else (200, given)
        content = body if isinstance(body, bytes) else json.dumps(body).encode("utf-8")
        request.send_response(status)
        request.send_header("X-Runyard-Wire", "1")
        request.send_header("X-Runyard-Offset", str(len(content)))
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        request.wfile.write(content)

    def bodies(self, method, path):
        """The JSON of the requests to a route."""
        return [json.loads(body.decode("utf-8")) for asked, where, _, body in self.asked if (asked, where) == (
            method, path)]
