"""`python -m runyard_sdk.scoring.standalone package.json`: one scorer behind the standard library's HTTP server.

For folders that Model.package makes. package.json has the fields of an `S` frame, with paths relative to the file.
"""

import argparse
import json
import os
import re
import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from queue import Queue
from socketserver import ThreadingMixIn
from urllib.parse import parse_qs

from runyard_sdk.scoring.answers import JSON_TYPE, Refused, answer_all, refusal
from runyard_sdk.scoring.failure import failure_facts, log_failure
from runyard_sdk.scoring.frames import Request
from runyard_sdk.scoring.openapi import document
from runyard_sdk.scoring.output import open_log_streams
from runyard_sdk.scoring.start import Start, load_scorer

LARGEST_BODY = 100 << 20
SECONDS_FOR_A_SLOW_CLIENT = 60
_NUMBER = re.compile(r"[0-9]+\Z")
DEFAULT_PORT = 5001
USUAL_FOLDERS = {"app_root": "azureml-app", "models_root": "azureml-models"}


class ScoringServer(ThreadingMixIn, HTTPServer):
    """HTTP server with threads for reading and writing; requests are scored in threads that call `score_forever`.

    So a script runs in the thread that loaded it: sessions of old frameworks belong to a thread.
    """

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, address, scorer, name):
        HTTPServer.__init__(self, address, _Handler)
        self.scorer, self.service_name = scorer, name or "service"
        self.methods = tuple(getattr(scorer, "methods", ("POST",)))
        self._asked = Queue()

    def ask(self, request):
        """Queue the request; return the scorer's answer."""
        answered = Queue()
        self._asked.put((request, answered))
        return answered.get()

    def score_forever(self):
        while True:
            request, answered = self._asked.get()
            (_, answer, _), = answer_all(self.scorer, [request])
            answered.put(answer)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "runyard-scoring"
    timeout = SECONDS_FOR_A_SLOW_CLIENT
    wbufsize = -1  # send head and body of an answer together
    disable_nagle_algorithm = True

    def log_message(self, format, *args):
        pass  # the log belongs to the script

    def _answer(self):
        path, _, query = self.path.partition("?")
        try:
            body = self._body()
            status, headers, content = self._routed(path, query, body)
        except Refused as error:
            self.close_connection = True  # the rest of the body is not read
            status, headers, content = refusal(error.status, error.message)
        self.send_response(status)
        for name, value in headers or [JSON_TYPE]:
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_HEAD = _answer

    def _body(self):
        if self.headers.get("Transfer-Encoding"):
            raise Refused(411, "Send the body with a Content-Length.")
        lengths = set(self.headers.get_all("Content-Length") or ["0"])
        length = lengths.pop()
        if lengths or not _NUMBER.match(length):
            raise Refused(400, "Content-Length must be one number, got %r." % ", ".join([length] + sorted(lengths)))
        if int(length) > LARGEST_BODY:
            raise Refused(413, "The body has %s bytes; at most %d are taken." % (length, LARGEST_BODY))
        return self.rfile.read(int(length))

    def _routed(self, path, query, body):
        if path == "/" and self.command in ("GET", "HEAD"):
            return 200, [["Content-Type", "text/plain; charset=utf-8"]], b"Healthy"
        if path == "/swagger.json" and self.command in ("GET", "HEAD"):
            version = 3 if parse_qs(query).get("version", ["2"])[0].startswith("3") else 2
            facts = getattr(self.server.scorer, "schema", None)
            described = document(self.server.service_name, "/score", facts, self.server.methods, version=version)
            return 200, None, json.dumps(described).encode("utf-8")
        if path != "/score" and not path.startswith("/v1/models/"):
            return refusal(404, "There is nothing at %s. Send requests to /score." % path)
        if self.command not in self.server.methods:
            allowed = ", ".join(self.server.methods)
            status, _, content = refusal(405, "%s is not answered here, but %s." % (self.command, allowed))
            return status, [JSON_TYPE, ["Allow", allowed]], content
        return self._scored(path, query, body)

    def _scored(self, path, query, body):
        is_plain = self.command == "POST" and path == "/score" and not getattr(self.server.scorer, "wants_heads", False)
        head = None if is_plain else {"method": self.command, "path": path, "query": query,
                                      "headers": [list(header) for header in self.headers.items()]}
        return self.server.ask(Request(body, head))


def main(arguments=None):
    """Serve until signalled; return 1 if the scorer did not load, with the cause on stderr."""
    options = _options(arguments)
    open_log_streams()
    start = read_package(options.package)
    start.prepare_process()
    try:
        scorer = load_scorer(start)
    except BaseException as error:  # whatever a script raises while loading, the user sees why
        log_failure(failure_facts(error, start))
        return 1
    server = ScoringServer((options.host, options.port), scorer, start.service)
    _exit_on_signals()
    helpers = [server.serve_forever] + [server.score_forever] * (start.requests_at_once - 1)
    for helper in helpers:
        threading.Thread(target=helper, daemon=True).start()
    print("Serving %s at http://%s:%d/score" % (start.service or start.scorer, options.host, server.server_port))
    server.score_forever()


def read_package(path):
    """Start that the file describes."""
    folder = os.path.dirname(os.path.abspath(path))
    with open(path, "rb") as source:
        facts = json.loads(source.read().decode("utf-8"))
    for name, usual in USUAL_FOLDERS.items():
        facts[name] = os.path.join(folder, facts.get(name) or usual)
    return Start.of_facts(facts)


def _exit_on_signals():
    """Exit at once on SIGINT and SIGTERM, also as process 1 of a container, which has no default handler."""
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, lambda number, frame: os._exit(0))


def _options(arguments):
    parser = argparse.ArgumentParser(prog="python -m runyard_sdk.scoring.standalone",
                                     description="Answer HTTP requests with a packaged model.")
    parser.add_argument("package", nargs="?", default="package.json", help="the file that says what to serve")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on; 0.0.0.0 inside a container")
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help="0 for any free one")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
