from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from runyard.errors import DataFailed
from runyard.model.data import NetworkRules
from runyard.web.addresses import Address, redirected
from runyard.web.answers import Head
from runyard.web.bodies import Body, body_of
from runyard.web.connections import Connection, Stale
from runyard.web.dialing import Dialer, proxy_refuses
from runyard.web.pool import Pool
from runyard.web.troubles import Broken, Patience

T = TypeVar("T")
_REDIRECTS = (301, 302, 303, 307, 308)
_SAME_ALWAYS = "Accept: */*\r\nAccept-Encoding: identity\r\nUser-Agent: runyard\r\n"


@dataclass(frozen=True)
class Answer:
    address: Address
    """Where it came from, after redirects."""
    head: Head
    body: Body


class Client:
    """Asks web servers, within the rules: proxies, certificates, allowed addresses, redirects, time limits."""

    def __init__(self, rules: NetworkRules) -> None:
        self._rules = rules
        self._dialer = Dialer(rules)
        self._pool = Pool()

    def patiently(self, address: Address, attempt: Callable[[], T]) -> T:
        """Try until it does not end in Broken; Unreachable after `retry_seconds` of trouble."""
        patience = Patience(address.shown, self._rules)
        while True:
            try:
                return attempt()
            except Broken as trouble:
                patience.wait(trouble)

    @contextmanager
    def ask(self, method: str, address: Address, headers: Mapping[str, str]) -> Iterator[Answer]:
        """One try, redirects followed. The status is any but a redirect's. The connection is kept for other requests
        if the body was read to its end."""
        asked = address
        for _ in range(self._rules.max_redirects + 1):
            with self._asked(method, asked, headers) as answer:
                location = answer.head.fields.get("location")
                if answer.head.status not in _REDIRECTS or not location:
                    yield answer
                    return
            asked = redirected(asked, location)
        raise DataFailed(
            f"{address.shown} redirects more than {self._rules.max_redirects} times, at last to {asked.shown}.",
            hint="Name the address of the file itself.",
        )

    def close(self) -> None:
        """Drop the kept connections; the client can be used again."""
        self._pool.close()

    @contextmanager
    def _asked(self, method: str, address: Address, headers: Mapping[str, str]) -> Iterator[Answer]:
        proxy = self._dialer.proxy_of(address)
        login = {"Proxy-Authorization": proxy.authorization} if proxy and proxy.authorization else {}
        is_relayed = proxy is not None and address.scheme == "http"
        origin = proxy if is_relayed else (proxy, address.scheme, address.host, address.port)
        request = _request(method, address, {**headers, **login} if is_relayed else headers, whole=is_relayed)
        connection, head = self._exchange(origin, address, request)
        is_kept = False
        try:
            body = body_of(head, method, connection)
            if proxy and head.status == 407:
                raise proxy_refuses(address, proxy, 407)
            yield Answer(address, head, body)
            body.skip()
            is_kept = body.is_finished and head.keeps_alive and not connection.buffered
        finally:
            if is_kept:
                self._pool.give(origin, connection)
            else:
                connection.close()

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


def _request(method: str, address: Address, headers: Mapping[str, str], *, whole: bool) -> bytes:
    target = f"{address.scheme}://{address.authority}{address.target}" if whole else address.target
    given = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    text = f"{method} {target} HTTP/1.1\r\nHost: {address.authority}\r\n{_SAME_ALWAYS}{given}\r\n"
    return text.encode("ascii")
