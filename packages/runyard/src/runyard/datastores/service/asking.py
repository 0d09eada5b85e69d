"""Requests to the service for files of its datastores, over connections that are kept and shared by threads."""

import http.client
import json
import os
import select
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, TypeVar

from runyard.errors import AccessDenied, DataFailed, Json, RunyardError, Unauthorized, from_wire
from runyard.model.data import NetworkRules
from runyard.service_address import ServiceAddress, explained
from runyard.web.troubles import Broken, Patience

T = TypeVar("T")
Body = bytes | Iterable[bytes] | IO[bytes] | None
_MOST_KEPT = 16
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})


class Asking:
    """One service, one token. Every trouble that may pass is Broken; `patiently` bears with it."""

    def __init__(self, where: Callable[[], ServiceAddress], token: str, rules: NetworkRules, shown: str) -> None:
        """`where` is asked for each new connection: a service may come back elsewhere."""
        self._where, self._token, self._rules, self._shown = where, token, rules, shown
        self._kept: list[http.client.HTTPConnection] = []
        self._owner = os.getpid()
        self._lock = threading.Lock()

    def patience(self) -> Patience:
        """For one piece of work that may break several times."""
        return Patience(self._shown, self._rules)

    def patiently(self, attempt: Callable[[], T]) -> T:
        """Try until it does not end in Broken; Unreachable after the rules' `retry_seconds` of trouble."""
        patience = self.patience()
        while True:
            try:
                return attempt()
            except Broken as trouble:
                patience.wait(trouble)

    def ask(self, method: str, path: str, body: Json | None = None) -> Json:
        """JSON both ways, patiently. Only for what may be asked twice."""

        def once() -> Json:
            with self.answer(method, path, None if body is None else json.dumps(body).encode()) as answer:
                content = answer.read()
                return dict(json.loads(content)) if content else {}

        return self.patiently(once)

    @contextmanager
    def answer(
        self, method: str, path: str, body: Body = None, headers: dict[str, str] | None = None
    ) -> Iterator[http.client.HTTPResponse]:
        """One try. The connection is kept if the answer was read to its end. Raises what the service refused with."""
        connection = self._taken()
        try:
            answer = self._sent(connection, method, path, body, headers or {})
            yield answer
            is_whole = answer.isclosed()
        except (OSError, http.client.HTTPException, ValueError) as problem:
            connection.close()
            raise self._trouble(problem) from problem
        except BaseException:
            connection.close()
            raise
        if is_whole and not answer.will_close:
            self._give(connection)
        else:
            connection.close()

    def _sent(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: Body, headers: dict[str, str]
    ) -> http.client.HTTPResponse:
        given = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/octet-stream", **headers}
        try:
            connection.request(method, f"/api/v1{path}", body=body, headers=given)
        except (BrokenPipeError, ConnectionResetError):
            # A service that refuses a body says why before it has taken it all.
            with suppress(OSError, http.client.HTTPException):
                _refuse(connection.getresponse())
            raise
        answer = connection.getresponse()
        _refuse(answer)
        return answer

    def _taken(self) -> http.client.HTTPConnection:
        with self._lock:
            if self._owner != os.getpid():  # a forked child must not speak on its parent's connections
                self._kept, self._owner = [], os.getpid()
            while self._kept:
                connection = self._kept.pop()
                if not _was_closed(connection):
                    return connection
                connection.close()
        try:
            return self._where().connection(self._rules.silence_seconds)
        except (OSError, ValueError) as problem:
            raise Broken(explained(problem)) from problem

    def _give(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if self._owner == os.getpid() and len(self._kept) < _MOST_KEPT:
                self._kept.append(connection)
                return
        connection.close()

    def _trouble(self, problem: Exception) -> Exception:
        if isinstance(problem, ssl.SSLCertVerificationError):
            return DataFailed(f"{self._shown} cannot be reached: {explained(problem)}.")
        return Broken(explained(problem))


def _refuse(answer: http.client.HTTPResponse) -> None:
    """Raises for an answer that is a refusal. 416 is the caller's to tell: he knows what he asked for."""
    if answer.status < 400 or answer.status == 416:
        return
    content = answer.read()
    try:
        refusal: RunyardError = from_wire(json.loads(content))
    except (ValueError, AttributeError, TypeError):
        refusal = RunyardError(f"the service answered {answer.status}: {content[:200].decode('utf-8', 'replace')}")
    if answer.status in _PASSING and not isinstance(refusal, DataFailed):
        raise Broken(refusal.problem.rstrip("."))
    if isinstance(refusal, Unauthorized):
        raise AccessDenied(refusal.problem, hint=refusal.hint)
    raise refusal


def _was_closed(connection: http.client.HTTPConnection) -> bool:
    """An idle connection with something to read has been ended by the other side."""
    if connection.sock is None:
        return True
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(0))
