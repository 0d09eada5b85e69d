"""HTTP to a container engine, and tar archives in the form that engines take.

Uses only the standard library: importing an HTTP client would slow down every process that starts a container.
"""

import http.client
import json
import socket
import ssl
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any
from urllib.parse import SplitResult, quote, urlencode, urlsplit

from runyard.core.errors import InvalidArgument
from runyard.environments.containers.failures import EngineRefused, engine_refused, engine_unreachable

API = "v1.40"
"""API version of Docker 19.03, the first with GPU requests; podman supports it too."""
CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 120.0
"""Default timeout; slow calls such as a commit pass their own."""
SCHEMES = ("unix", "tcp", "http", "https")

Json = Any
Query = Mapping[str, Any]


@dataclass(frozen=True)
class EngineCertificates:
    """TLS client files for an engine at a TCP address: ca.pem, cert.pem and key.pem of the folder."""

    folder: Path


class _OnSocket(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float | None) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(CONNECT_SECONDS)
        self.sock.connect(self._path)
        self.sock.settimeout(self.timeout)


@dataclass(frozen=True)
class EngineTransport:
    """Sends requests, each on its own connection, so that long waits block nobody. Thread-safe."""

    address: str
    certificates: EngineCertificates | None = None
    parts: SplitResult = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", parse_engine_address(self.address))

    def get(self, path: str, query: Query | None = None) -> Json:
        return self.ask("GET", path, query)

    def ask(
        self,
        method: str,
        path: str,
        query: Query | None = None,
        body: Json = None,
        *,
        seconds: float | None = ANSWER_SECONDS,
        headers: Mapping[str, str] | None = None,
    ) -> Json:
        """Send a request and return the JSON answer; None if it is empty. Raises EnvironmentFailed."""
        sent = None if body is None else json.dumps(body).encode()
        kind = {} if body is None else {"Content-Type": "application/json"}
        with self.opened(method, path, query, sent, seconds=seconds, headers={**kind, **(headers or {})}) as answer:
            text = answer.read()
        return json.loads(text) if text.strip() else None

    @contextmanager
    def opened(
        self,
        method: str,
        path: str,
        query: Query | None = None,
        body: bytes | IO[bytes] | None = None,
        *,
        seconds: float | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Iterator[http.client.HTTPResponse]:
        """Send a request and yield the streaming answer; `seconds` limits each wait for data."""
        connection = self._connection(seconds)
        request = f"{method} {path}"
        try:
            answer = _exchange(connection, method, _target(path, query), body, dict(headers or {}))
            if answer.status >= 300:
                raise engine_refused(request, answer.status, _message(answer.read(1 << 20)))
            yield answer
        except (OSError, http.client.HTTPException) as error:
            raise engine_unreachable(self.address, request, error) from error
        finally:
            connection.close()

    def _connection(self, seconds: float | None) -> http.client.HTTPConnection:
        if self.parts.scheme == "unix":
            return _OnSocket(self.parts.path, seconds)
        host, port = self.parts.hostname or "127.0.0.1", self.parts.port
        if self.certificates is None and self.parts.scheme != "https":
            return http.client.HTTPConnection(host, port or 2375, timeout=seconds)
        return http.client.HTTPSConnection(host, port or 2376, timeout=seconds, context=self._trust())

    def _trust(self) -> ssl.SSLContext:
        if self.certificates is None:
            return ssl.create_default_context()
        folder = self.certificates.folder
        context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
        context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
        return context


def parse_engine_address(address: str) -> SplitResult:
    """Parse unix:///path or tcp://host:port. Raises InvalidArgument."""
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError:
        parts = SplitResult("", "", "", "", "")
    whole = bool(parts.path) if parts.scheme == "unix" else bool(parts.hostname)
    if parts.scheme not in SCHEMES or not whole or "\0" in address:
        raise InvalidArgument(
            f"{address!r} is no address of a container engine on this machine.",
            hint="DOCKER_HOST is unix:///path/of/the.sock or tcp://127.0.0.1:port; an engine behind ssh cannot mount "
            "this machine's folders.",
        )
    return parts


def _target(path: str, query: Query | None) -> str:
    given = {name: _queried(value) for name, value in (query or {}).items() if value not in (None, "")}
    return f"/{API}{quote(path)}" + (f"?{urlencode(given, doseq=True)}" if given else "")


def _queried(value: Any) -> str | tuple[str, ...]:
    """A tuple becomes a repeated parameter."""
    if isinstance(value, tuple):
        return value
    if isinstance(value, bool):
        return "1" if value else "0"
    return value if isinstance(value, str) else json.dumps(value)


def _exchange(
    connection: http.client.HTTPConnection,
    method: str,
    target: str,
    body: bytes | IO[bytes] | None,
    headers: dict[str, str],
) -> http.client.HTTPResponse:
    """Send the request; a body of unknown length is chunked. An engine may refuse and close before it has read the
    whole body: then read its answer."""
    try:
        connection.request(method, target, body, headers, encode_chunked=hasattr(body, "read"))
    except (BrokenPipeError, ConnectionResetError):
        if connection.sock is None:
            raise
        answer = http.client.HTTPResponse(connection.sock, method=method)
        answer.begin()
        return answer
    return connection.getresponse()


def _message(body: bytes) -> str:
    try:
        message = json.loads(body)
    except ValueError:
        return body.decode(errors="replace").strip()
    return str(message.get("message") or message.get("cause") or message) if isinstance(message, dict) else str(message)


TRIES = 3
END_MARK = 2 * tarfile.BLOCKSIZE


@contextmanager
def tar_writer(into: IO[bytes], *, follow_links: bool = False) -> Iterator[tarfile.TarFile]:
    """Write a tar without padding after its end mark, and rewind it.

    `tarfile` pads to 10 KiB. podman's unpacking process exits at the end mark, so writing the padding fails with a
    broken pipe.
    """
    tar = tarfile.open(fileobj=into, mode="w", dereference=follow_links)  # noqa: SIM115 - closed below
    yield tar
    ends_at = into.tell()
    tar.close()
    into.truncate(ends_at + END_MARK)
    into.seek(0)


def retry_broken_pipe(archive: IO[bytes], send: Callable[[], None]) -> None:
    """Send a seekable archive; retry if a pipe inside the engine breaks. Sending twice is harmless."""
    begins_at = archive.tell()
    for tries_left in reversed(range(TRIES)):
        try:
            return send()
        except EngineRefused as error:
            if not tries_left or "broken pipe" not in error.said:
                raise
            archive.seek(begins_at)
