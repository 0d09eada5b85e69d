"""Package index proxy on this machine's loopback address, for the steps of a Dockerfile while it is built.

It serves sources that a build argument must not name: local folders, and indexes with a password or a private
certificate.
"""

import hashlib
import hmac
import shutil
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Protocol
from urllib.parse import urlsplit

from runyard.environments.package_index.upstreams import IndexResponse, PackageFolder, PackageIndex, html_response
from runyard.environments.package_sources import PackageSources, local_folder

FIRST_PORT, PORTS, TRIES = 20000, 12000, 64
MOST_ERRORS = 20
PROXIES = ("http", "https", "no")


class PackageUpstream(Protocol):
    def answer(self, path: str, method: str, own: str) -> IndexResponse: ...


@dataclass
class PackageIndexProxy:
    """A running proxy."""

    addresses: Mapping[str, str]
    """Address in the proxy of each package source."""
    errors: list[str] = field(default_factory=list)
    """Requests that failed, and why."""


@contextmanager
def serve_packages(sources: PackageSources, salt: bytes) -> Iterator[PackageIndexProxy]:
    """Serve the sources that are hidden from images until exit, to anyone who knows the addresses.

    The same sources get the same addresses if the port is free, since they are part of the key of the engine's layer
    cache. The `salt` keeps them from revealing the sources.
    """
    upstreams = {source: _upstream(source, sources) for source in sources.hidden_from_images}
    if not upstreams:
        yield PackageIndexProxy({})
        return
    identity = repr([sources.hidden_from_images, sources.settings.ca_bundle]).encode()
    key = hmac.new(salt, identity, hashlib.sha256).hexdigest()[:32]
    errors: list[str] = []
    handler = type("Handler", (_Handler,), {"key": key, "upstreams": list(upstreams.values()), "errors": errors})
    with _listening(int(key[:8], 16), handler) as server:
        host = f"http://127.0.0.1:{server.server_port}/{key}"
        thread = Thread(target=server.serve_forever, name="packages", daemon=True)
        thread.start()
        try:
            yield PackageIndexProxy({source: f"{host}/{number}/" for number, source in enumerate(upstreams)}, errors)
        finally:
            server.shutdown()
            thread.join()


def _upstream(source: str, sources: PackageSources) -> PackageUpstream:
    folder = local_folder(source)
    if folder is not None:
        return PackageFolder(folder)
    effective = sources.in_effect()
    proxies = {kind: effective.get(f"{kind}_proxy") or effective.get(f"{kind.upper()}_PROXY", "") for kind in PROXIES}
    return PackageIndex(source, _trusting(source, sources), {kind: value for kind, value in proxies.items() if value})


def _trusting(source: str, sources: PackageSources) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=sources.certificates() or None)
    parts = urlsplit(source)
    if {parts.hostname, f"{parts.hostname}:{parts.port}"} & set(sources.settings.trusted_hosts):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _listening(seed: int, handler: type[BaseHTTPRequestHandler]) -> ThreadingHTTPServer:
    """Listen on a port derived from `seed`, or the next free one; on any port if all of these are taken."""
    for port in (*(FIRST_PORT + (seed + more) % PORTS for more in range(TRIES)), 0):
        try:
            return ThreadingHTTPServer(("127.0.0.1", port), handler)
        except OSError:
            if not port:
                raise
    raise AssertionError("a loop that ends before this")


class _Handler(BaseHTTPRequestHandler):
    key: str
    upstreams: Sequence[PackageUpstream]
    errors: list[str]

    def do_GET(self) -> None:
        self._serve(self._answer())

    def do_HEAD(self) -> None:
        self._serve(self._answer())

    def _answer(self) -> IndexResponse:
        key, _, path = self.path.lstrip("/").partition("/")
        number, _, path = path.partition("/")
        if not hmac.compare_digest(key.encode(), self.key.encode()) or number not in map(
            str, range(len(self.upstreams))
        ):
            return html_response("not here", 404)
        path = path.partition("?")[0]
        answer = self.upstreams[int(number)].answer(path, self.command, f"/{key}/{number}")
        if answer.status not in (200, 404) and len(self.errors) < MOST_ERRORS:
            self.errors.append(answer.content.read().decode(errors="replace"))
            answer.content.seek(0)
        return answer

    def _serve(self, answer: IndexResponse) -> None:
        with answer.content:
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                shutil.copyfileobj(answer.content, self.wfile)

    def log_message(self, format: str, *args: object) -> None:
        """Do not print requests; failures are in `errors`."""
