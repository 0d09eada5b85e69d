"""Packages for the steps of a Dockerfile that an image may not be told the way to: on this machine's loopback address,
while the image is built."""

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

from runyard.environments.gate.answer import Answer, page
from runyard.environments.gate.folder import PackageFolder
from runyard.environments.gate.index import PackageIndex
from runyard.environments.sources import Sources, folder_of

FIRST_PORT, PORTS, TRIES = 20000, 12000, 64
MOST_COMPLAINTS = 20
PROXIES = ("http", "https", "no")


class Place(Protocol):
    def answer(self, path: str, method: str, own: str) -> Answer: ...


@dataclass
class Gate:
    addresses: Mapping[str, str]
    """Of each place that is served, where the steps find it."""
    complaints: list[str] = field(default_factory=list)
    """What could not be had, and why."""


@contextmanager
def serving(sources: Sources, salt: bytes) -> Iterator[Gate]:
    """Serve what `sources` keep from images to whoever knows the addresses, until the end.

    The addresses are the same for the same sources, mostly: else no step would be taken from the engine's cache of
    layers. They tell nothing to who has not the `salt`.
    """
    places = {place: _place(place, sources) for place in sources.kept_from_images}
    if not places:
        yield Gate({})
        return
    told = repr([sources.kept_from_images, sources.settings.ca_bundle]).encode()
    key = hmac.new(salt, told, hashlib.sha256).hexdigest()[:32]
    complaints: list[str] = []
    handler = type("Handler", (_Handler,), {"key": key, "places": list(places.values()), "complaints": complaints})
    with _listening(int(key[:8], 16), handler) as server:
        host = f"http://127.0.0.1:{server.server_port}/{key}"
        thread = Thread(target=server.serve_forever, name="packages", daemon=True)
        thread.start()
        try:
            yield Gate({place: f"{host}/{number}/" for number, place in enumerate(places)}, complaints)
        finally:
            server.shutdown()
            thread.join()


def _place(place: str, sources: Sources) -> Place:
    folder = folder_of(place)
    if folder is not None:
        return PackageFolder(folder)
    effective = sources.in_effect()
    proxies = {kind: effective.get(f"{kind}_proxy") or effective.get(f"{kind.upper()}_PROXY", "") for kind in PROXIES}
    return PackageIndex(place, _trusting(place, sources), {kind: value for kind, value in proxies.items() if value})


def _trusting(place: str, sources: Sources) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=sources.certificates() or None)
    parts = urlsplit(place)
    if {parts.hostname, f"{parts.hostname}:{parts.port}"} & set(sources.settings.trusted_hosts):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _listening(wish: int, handler: type[BaseHTTPRequestHandler]) -> ThreadingHTTPServer:
    """At the wished port, or near it where others are; at any where all of those are taken."""
    for port in (*(FIRST_PORT + (wish + more) % PORTS for more in range(TRIES)), 0):
        try:
            return ThreadingHTTPServer(("127.0.0.1", port), handler)
        except OSError:
            if not port:
                raise
    raise AssertionError("a loop that ends before this")


class _Handler(BaseHTTPRequestHandler):
    key: str
    places: Sequence[Place]
    complaints: list[str]

    def do_GET(self) -> None:
        self._serve(self._answer())

    def do_HEAD(self) -> None:
        self._serve(self._answer())

    def _answer(self) -> Answer:
        key, _, path = self.path.lstrip("/").partition("/")
        number, _, path = path.partition("/")
        if not hmac.compare_digest(key.encode(), self.key.encode()) or number not in map(str, range(len(self.places))):
            return page("not here", 404)
        path = path.partition("?")[0]
        answer = self.places[int(number)].answer(path, self.command, f"/{key}/{number}")
        if answer.status not in (200, 404) and len(self.complaints) < MOST_COMPLAINTS:
            self.complaints.append(answer.content.read().decode(errors="replace"))
            answer.content.seek(0)
        return answer

    def _serve(self, answer: Answer) -> None:
        with answer.content:
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                shutil.copyfileobj(answer.content, self.wfile)

    def log_message(self, format: str, *args: object) -> None:
        """What goes wrong is among the complaints."""
