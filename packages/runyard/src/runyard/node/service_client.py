import http.client
import json
import shutil
import ssl
import time
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from typing import IO, TypeVar

from runyard.errors import DataFailed, InvalidArgument, Json, RunyardError, StorageFull, from_wire
from runyard.service_address import address_in, certificates_file, explained

__all__ = [
    "FIRST_PAUSE_SECONDS",
    "LONGEST_PAUSE_SECONDS",
    "ServiceAway",
    "ServiceClient",
    "certificates_file",
    "patiently",
    "quoted",
]

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.05, 2.0
T = TypeVar("T")
_RETRIED = {401, 408, 425, 429}


class ServiceAway(Exception):
    """The service cannot take this now: not there, failing, or its disk is full. Worth asking again for ever."""

    def __init__(self, reason: str, *, is_full: bool = False) -> None:
        super().__init__(reason)
        self.is_full = is_full


class ServiceClient:
    """Requests of a node to the service, over one connection that is kept.

    The address, and the certificates to trust, are read from `service.json` whenever a connection is made, so a
    service that came back elsewhere is found. A request may be sent twice: every route the node uses allows it.
    """

    def __init__(self, home: Path, token: str, *, timeout_seconds: float = 30) -> None:
        self.home, self.token, self._timeout = home, token, timeout_seconds
        self._connection: http.client.HTTPConnection | None = None

    def call(self, method: str, path: str, body: bytes | IO[bytes] | None = None, *, size: int | None = None) -> bytes:
        """The answer's bytes. Raises ServiceAway, or the RunyardError the service answered with."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/octet-stream"}
        if size is not None:
            headers["Content-Length"] = str(size)
        status, answer = self._exchange(method, f"/api/v1{path}", body, headers)
        if status < 400:
            return answer
        refusal = _refusal(status, answer)
        # Data that cannot be reached is no fault of the service, which has tried for long already.
        if (status in _RETRIED or status >= 500) and not isinstance(refusal, DataFailed):
            raise ServiceAway(_words(status, answer), is_full=status == StorageFull.status)
        raise refusal

    def ask(self, method: str, path: str, body: Json | None = None) -> Json:
        """The same with JSON both ways."""
        answer = self.call(method, path, None if body is None else json.dumps(body).encode())
        parsed: Json = json.loads(answer) if answer else {}
        return parsed

    def download(self, path: str, target: Path) -> None:
        """The answer's bytes into a file, without holding them in memory. Raises as `call` does."""
        connection = None
        try:
            connection = self._connect()
            connection.request("GET", f"/api/v1{path}", headers={"Authorization": f"Bearer {self.token}"})
            response = connection.getresponse()
            if response.status >= 400:
                raise _refusal(response.status, response.read())
            with target.open("wb") as file:
                shutil.copyfileobj(response, file, 1 << 20)
            if response.length:
                raise ConnectionError(f"the answer ended {response.length} bytes early")
        except (http.client.HTTPException, ConnectionError, TimeoutError, FileNotFoundError, ssl.SSLError) as e:
            raise ServiceAway(explained(e)) from e
        finally:
            if connection is not None:
                connection.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _exchange(
        self, method: str, path: str, body: bytes | IO[bytes] | None, headers: dict[str, str]
    ) -> tuple[int, bytes]:
        was_kept = self._connection is not None
        try:
            return self._exchange_once(method, path, body, headers)
        except (OSError, http.client.HTTPException, ValueError) as e:
            self.close()
            # A kept connection may have been closed by the other side while it was idle.
            if not was_kept or not (body is None or isinstance(body, bytes)):
                raise ServiceAway(explained(e)) from e
        try:
            return self._exchange_once(method, path, body, headers)
        except (OSError, http.client.HTTPException, ValueError) as e:
            self.close()
            raise ServiceAway(explained(e)) from e

    def _exchange_once(
        self, method: str, path: str, body: bytes | IO[bytes] | None, headers: dict[str, str]
    ) -> tuple[int, bytes]:
        if self._connection is None:
            self._connection = self._connect()
        self._connection.request(method, path, body=body, headers=headers)
        response = self._connection.getresponse()
        return response.status, response.read()

    def _connect(self) -> http.client.HTTPConnection:
        try:
            return address_in(self.home).connection(self._timeout)
        except InvalidArgument as e:  # of a file that may be put right any moment
            raise ServiceAway(str(e)) from e


def patiently(request: Callable[[], T]) -> T:
    """Make a request for as long as the service is away. For a process that has nothing else to do."""
    pause = FIRST_PAUSE_SECONDS
    while True:
        try:
            return request()
        except ServiceAway:
            time.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)


def quoted(part: str) -> str:
    """A name or path as part of an address; slashes stay."""
    return urllib.parse.quote(part, safe="/")


def _refusal(status: int, answer: bytes) -> RunyardError:
    try:
        return from_wire(json.loads(answer))
    except (ValueError, AttributeError, TypeError):
        return RunyardError(_words(status, answer))


def _words(status: int, answer: bytes) -> str:
    """The problem that the answer names, or its first bytes where it is none of ours."""
    try:
        said = str(json.loads(answer)["problem"])
    except (ValueError, KeyError, TypeError):
        said = answer[:300].decode("utf-8", "replace")
    return f"the service answered {status}: {said}"
