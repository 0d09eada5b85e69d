"""A receiver of OTLP over HTTP on loopback, which keeps the spans it was sent."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class Received:
    path: str
    headers: dict[str, str]
    resource: dict[str, str]
    spans: list[Any]


class Receiver:
    def __init__(self) -> None:
        self.requests: list[Received] = []
        self._changed = threading.Condition()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                receiver._take(self.path, dict(self.headers), ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *arguments: object) -> None:
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def trace_of(self, run_id: str, seconds: float = 60) -> Received:
        """Once it has come."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._find(run_id), seconds), f"no trace of {run_id}"
            found = self._find(run_id)
            assert found is not None
            return found

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _find(self, run_id: str) -> Received | None:
        for request in self.requests:
            if any(attributes_of(span).get("runyard.run.id") == run_id for span in request.spans):
                return request
        return None

    def _take(self, path: str, headers: dict[str, str], sent: ExportTraceServiceRequest) -> None:
        with self._changed:
            for part in sent.resource_spans:
                spans = [span for scope in part.scope_spans for span in scope.spans]
                self.requests.append(Received(path, headers, attributes_of(part.resource), spans))
            self._changed.notify_all()


def attributes_of(span: Any) -> dict[str, str]:
    return {one.key: one.value.string_value for one in span.attributes}


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()
    try:
        yield receiver
    finally:
        receiver.close()
