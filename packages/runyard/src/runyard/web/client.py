from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self, TypeVar

from runyard.errors import DataFailed
from runyard.model.data import NetworkRules
from runyard.web.addresses import Address, redirected
from runyard.web.answers import Head
from runyard.web.bodies import Body, body_of
from runyard.web.connections import Connection, Stale
from runyard.web.dialing import Dialer, proxy_refuses
from runyard.web.pool import Pool
from runyard.web.proxies import Proxy
from runyard.web.troubles import Broken, Patience

T = TypeVar("T")
_REDIRECTS = (301, 302, 303, 307, 308)
_SAME_ALWAYS = "Accept: */*\r\nAccept-Encoding: identity\r\nUser-Agent: runyard\r\n"


def request_of(method: str, address: Address, target: str, headers: str) -> bytes:
    """`target` is that of the address, or what a proxy takes for it; `headers` are whole lines."""
    request = f"{method} {target} HTTP/1.1\r\nHost: {address.authority}\r\n{_SAME_ALWAYS}{headers}\r\n"
    return request.encode("latin-1")


class Answer:
    """A server's answer, in a `with`: at its end the connection is kept if the body was read to its end."""

    __slots__ = ("_connection", "_origin", "_pool", "body", "head")

    def __init__(self, pool: Pool, origin: Hashable, connection: Connection, head: Head, body: Body) -> None:
        self.head, self.body = head, body
        self._pool, self._origin, self._connection = pool, origin, connection

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        if kind is None:
            self.body.skip()
        if self.body.is_finished and self.head.keeps_alive and not self._connection.buffered:
            self._pool.give(self._origin, self._connection)
        else:
            self._connection.close()


class Client:
    """Asks web servers, within the rules: proxies, certificates, allowed addresses, redirects, time limits."""

    def __init__(self, rules: NetworkRules) -> None:
        self._rules = rules
        self._dialer = Dialer(rules)
        self._pool = Pool()

    def patiently(self, address: Address, attempt: Callable[[], T]) -> T:
        """Try until it does not end in Broken; Unreachable after `retry_seconds` of trouble."""
        try:
            return attempt()
        except Broken as first:
            trouble = first
        patience = Patience(address.shown, self._rules)
        while True:
            patience.wait(trouble)
            try:
                return attempt()
            except Broken as next_one:
                trouble = next_one

    def ask(self, method: str, address: Address, headers: str = "") -> Answer:
        """One try, redirects followed: the status is any but a redirect's. `headers` are whole lines."""
        asked = address
        for _ in range(self._rules.max_redirects + 1):
            answer = self._ask(method, asked, headers)
            location = answer.head.fields.get("location")
            if answer.head.status not in _REDIRECTS or not location:
                return answer
            with answer:
                asked = redirected(asked, location)
        raise DataFailed(
            f"{address.shown} redirects more than {self._rules.max_redirects} times, at last to {asked.shown}.",
            hint="Name the address of the file itself.",
        )

    def proxy_of(self, address: Address) -> Proxy | None:
        return self._dialer.proxy_of(address)

    @contextmanager
    def connected(self, address: Address) -> Iterator[Connection]:
        """A connection for as many requests as one likes; kept afterwards, if there was no error."""
        origin = (address[:3], self.proxy_of(address))
        connection = self._pool.take(origin) or self._dialer.dial(address)
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        self._pool.give(origin, connection)

    def close(self) -> None:
        """Drop the kept connections; the client can be used again."""
        self._pool.close()

    def _ask(self, method: str, address: Address, headers: str) -> Answer:
        proxy, target = self.proxy_of(address), address.target
        # A connection to a proxy serves one host as well: the host was checked when the connection was made.
        origin = (address[:3], proxy)
        if proxy and address.scheme == "http":
            target = f"http://{address.authority}{target}"
            headers += f"Proxy-Authorization: {proxy.authorization}\r\n" if proxy.authorization else ""
        connection, head = self._exchange(origin, address, request_of(method, address, target, headers))
        try:
            answer = Answer(self._pool, origin, connection, head, body_of(head, method, connection))
            if proxy and head.status == 407:
                raise proxy_refuses(address, proxy, head.status)
            return answer
        except BaseException:
            connection.close()
            raise

    def _exchange(self, origin: Hashable, address: Address, request: bytes) -> tuple[Connection, Head]:
        while True:
            connection = self._pool.take(origin) or self._dialer.dial(address)
            try:
                return connection, connection.ask(request)
            except Stale:
                connection.close()
            except BaseException:
                connection.close()
                raise
