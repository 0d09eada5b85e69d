"""A client of the service made of the standard library alone, so that tests see the wire as it is."""

import hashlib
import http.client
import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

PREFIX = "/api/v1"
PATIENCE_SECONDS = 120.0
"""Beyond this something is broken; a busy machine may take most of it."""


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes
    headers: dict[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class WireClient:
    """`ask` gives any answer back; the verbs expect success and return the JSON."""

    def __init__(self, url: str, token: str, workspace: str = "", ca: Path | None = None) -> None:
        self.url, self.token, self.workspace, self.ca = url, token, workspace, ca
        self._address = urlsplit(url)

    def with_token(self, token: str) -> "WireClient":
        return WireClient(self.url, token, self.workspace, self.ca)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Bytes go as they are, anything else as JSON. A header given "" is left out."""
        connection = self._connect()
        try:
            connection.request(method, path, body=_sent(body), headers=self._headers(headers))
            answer = connection.getresponse()
            names = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, answer.read(), names)
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        return self._must("GET", path)

    def post(self, path: str, body: Any = None) -> Any:
        return self._must("POST", path, body)

    def put(self, path: str, body: Any = None) -> Any:
        return self._must("PUT", path, body)

    def patch(self, path: str, body: Any) -> Any:
        return self._must("PATCH", path, body)

    def delete(self, path: str) -> Any:
        return self._must("DELETE", path)

    def read(self, path: str) -> bytes:
        answer = self.ask("GET", PREFIX + path)
        assert answer.status == 200, answer.body
        return answer.body

    def refusal(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """The error of a request that must fail, with its status beside it."""
        answer = self.ask(method, PREFIX + path, body)
        assert answer.status >= 400, answer.body
        return {**answer.json, "status": answer.status}

    def lines(self, path: str, timeout: float = PATIENCE_SECONDS) -> Iterator[dict[str, Any]]:
        """NDJSON as it comes in; the empty lines that keep the connection alive are left out."""
        connection = self._connect(timeout)
        try:
            connection.request("GET", PREFIX + path, headers=self._headers({}))
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            for line in answer:
                if line.strip():
                    yield json.loads(line)
        finally:
            connection.close()

    @contextmanager
    def half_sent(self, path: str, size: int) -> Iterator[http.client.HTTPConnection]:
        """A PUT of which half of the body has gone."""
        connection = self._connect()
        connection.putrequest("PUT", PREFIX + path)
        for name, value in self._headers({"content-length": str(size)}).items():
            connection.putheader(name, value)
        connection.endheaders()
        connection.send(bytes(size // 2))
        try:
            yield connection
        finally:
            connection.close()

    @property
    def here(self) -> str:
        return f"/workspaces/{self.workspace}"

    def put_blob(self, data: bytes) -> str:
        sha256 = hashlib.sha256(data).hexdigest()
        self.put(f"/blobs/{sha256}", data)
        return sha256

    def interactive_run(self, run_id: str, experiment: str = "probe", **more: Any) -> dict[str, Any]:
        """A run that launches nothing."""
        body = {"run_id": run_id, "interactive": True, **more}
        run: dict[str, Any] = self.post(f"{self.here}/experiments/{experiment}/runs", body)
        return run

    def _must(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.ask(method, PREFIX + path, body)
        assert answer.status < 300, (method, path, answer.status, answer.body)
        return answer.json if answer.body else None

    def _connect(self, timeout: float = PATIENCE_SECONDS) -> http.client.HTTPConnection:
        host, port = self._address.hostname or "", self._address.port
        if self._address.scheme == "https":
            trust = ssl.create_default_context(cafile=self.ca)
            return http.client.HTTPSConnection(host, port, timeout=timeout, context=trust)
        return http.client.HTTPConnection(host, port, timeout=timeout)

    def _headers(self, given: dict[str, str]) -> dict[str, str]:
        headers = {"authorization": f"Bearer {self.token}", **{name.lower(): value for name, value in given.items()}}
        return {name: value for name, value in headers.items() if value}


def in_address(text: str) -> str:
    return quote(text, safe="")


def _sent(body: Any) -> bytes | None:
    return body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
