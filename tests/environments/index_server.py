"""A package index on loopback that serves a folder of wheels, or fails in the way that is asked for."""

import base64
import hashlib
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread

from tests.servers.certificates import Certificate

GARBAGE = b"{\x00\xff not what was asked for"


@dataclass
class Index:
    """`fails` is a status, "garbage", "cut" (the answer breaks off) or "silent" (there is none)."""

    folder: Path
    login: str = ""
    """USER:PASSWORD that must be shown; "" where anybody may come."""
    fails: int | str = 0
    wrong_hashes: bool = False
    host: str = ""
    asked: list[str] = field(default_factory=list)
    over: Event = field(default_factory=Event)

    @property
    def address(self) -> str:
        return f"{self.host}/simple"

    @property
    def address_with_login(self) -> str:
        return self.address.replace("://", f"://{self.login}@")


@contextmanager
def serving(index: Index, certificate: Certificate | None = None) -> Iterator[Index]:
    """The index answers until the end."""
    handler = type("Handler", (_Handler,), {"index": index})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        scheme = "http"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate.chain, certificate.key)
            server.socket = context.wrap_socket(server.socket, server_side=True)
            scheme = "https"
        index.host = f"{scheme}://127.0.0.1:{server.server_address[1]}"
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield index
        finally:
            index.over.set()
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    index: Index

    def do_GET(self) -> None:
        self.index.asked.append(self.path)
        if self.index.fails == "silent":
            self.index.over.wait()
            self.close_connection = True
        elif isinstance(self.index.fails, int) and self.index.fails:
            self._answer(self.index.fails, b"")
        elif self.index.fails == "garbage":
            self._answer(200, GARBAGE, "application/vnd.pypi.simple.v1+json")
        elif self.index.fails == "cut":
            self._answer(200, GARBAGE, length=10_000)
            self.close_connection = True
        elif self.index.login and self.headers["Authorization"] != self._expected():
            self._answer(401, b"")
        else:
            self._serve(self.path.strip("/").split("/"))

    do_HEAD = do_GET

    def _serve(self, parts: list[str]) -> None:
        if parts[0] == "files":
            file = self.index.folder / parts[1]
            self._answer(200, file.read_bytes(), "application/octet-stream")
            return
        name = parts[-1]
        files = [file for file in sorted(self.index.folder.iterdir()) if file.name.partition("-")[0] == name]
        self._answer(200 if files else 404, "".join(map(self._link, files)).encode())

    def _link(self, file: Path) -> str:
        digest = "0" * 64 if self.index.wrong_hashes else hashlib.sha256(file.read_bytes()).hexdigest()
        return f'<a href="/files/{file.name}#sha256={digest}">{file.name}</a><br>\n'

    def _expected(self) -> str:
        return "Basic " + base64.b64encode(self.index.login.encode()).decode()

    def _answer(self, status: int, body: bytes, kind: str = "text/html", length: int | None = None) -> None:
        self.send_response(status)
        if status == 401:
            self.send_header("WWW-Authenticate", 'Basic realm="packages"')
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass
