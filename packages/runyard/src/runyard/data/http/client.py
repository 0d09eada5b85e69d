import os
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self, TypeVar

import httpcore

from runyard.core.errors import AccessDenied, DataFailed
from runyard.core.records.data import NetworkRules
from runyard.data.http.addresses import PORTS, Address, redirected
from runyard.data.http.network_backend import GuardedNetwork, HttpStream, StaleConnection
from runyard.data.http.proxies import Proxy
from runyard.data.http.responses import ResponseBody, ResponseHead, head_of
from runyard.data.http.retries import HttpBackoff, TransientError

T = TypeVar("T")
Headers = Sequence[tuple[str, str]]
COMMON_HEADERS = (("Accept", "*/*"), ("Accept-Encoding", "identity"), ("User-Agent", "runyard"))
MAX_KEPT = 64
MAX_IDLE_SECONDS = 30.0
_REDIRECTS = (301, 302, 303, 307, 308)


class HttpResponse:
    """Response, used in a `with` block. At its end the connection is reused if the body was read to its end."""

    __slots__ = ("_response", "_stream", "body", "head")

    def __init__(self, response: httpcore.Response, head: ResponseHead, *, has_body: bool) -> None:
        self._response, self.head = response, head
        self._stream: HttpStream = response.extensions["network_stream"]
        self.body = ResponseBody(response, head, self._stream, has_body=has_body)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        try:
            if kind is None:
                self.body.skip()
        finally:
            if self.body.is_overrun:
                self._stream.close()
            self._response.close()


class HttpClient:
    """HTTP client that follows NetworkRules: proxies, certificates, allowed addresses, redirects, timeouts.

    Connections are kept and shared by threads. A forked child starts with none: two processes that read from one
    connection would each get parts of the other's response.
    """

    def __init__(self, rules: NetworkRules) -> None:
        self._rules = rules
        self._network = GuardedNetwork(rules)
        self._begin()

    def patiently(self, address: Address, attempt: Callable[[], T]) -> T:
        """Call `attempt` again while it fails temporarily. Raises Unreachable after `retry_seconds`."""
        try:
            return attempt()
        except TransientError as first:
            failure = first
        patience = HttpBackoff(address.shown, self._rules)
        while True:
            patience.wait(failure)
            try:
                return attempt()
            except TransientError as next_one:
                failure = next_one

    def ask(self, method: str, address: Address, headers: Headers = ()) -> HttpResponse:
        """Send one request and follow redirects. Does not retry."""
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

    def close(self) -> None:
        """Close the kept connections. The client can be used afterwards."""
        for pool in list(self._pools.values()):
            pool.close()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._pools: dict[tuple[str, Proxy | None], httpcore.ConnectionPool] = {}

    def _ask(self, method: str, address: Address, headers: Headers) -> HttpResponse:
        proxy = self._network.proxy_of(address)
        response = self._response(_request(method, address, headers), address, proxy)
        try:
            head = head_of(response)
            if proxy and head.status == 407:
                raise _proxy_refuses(address, proxy, head.status)
            return HttpResponse(response, head, has_body=method != "HEAD" and head.status not in (204, 304))
        except BaseException:
            response.close()
            raise

    def _response(self, request: httpcore.Request, address: Address, proxy: Proxy | None) -> httpcore.Response:
        pool = self._pool(address, proxy)
        while True:
            try:
                self._network.set_address(address)
                return pool.handle_request(request)
            except StaleConnection:
                continue
            except httpcore.ProxyError as error:
                status = int(str(error)[:3])
                if proxy and status in (401, 403, 407):
                    raise _proxy_refuses(address, proxy, status) from error
                raise TransientError(f"{proxy.shown if proxy else 'the proxy'} answers {status}") from error
            except httpcore.ProtocolError as error:
                raise TransientError(f"what the server sends is no answer of HTTP/1.1: {error}") from error

    def _pool(self, address: Address, proxy: Proxy | None) -> httpcore.ConnectionPool:
        """One pool per scheme and proxy: only https needs certificates, which may be unreadable."""
        if os.getpid() != self._pid:
            self._begin()
        pool = self._pools.get((address.scheme, proxy))
        if pool is None:
            made = httpcore.ConnectionPool(
                ssl_context=self._network.trust if address.scheme == "https" else None,
                proxy=_httpcore_proxy(proxy) if proxy else None,
                max_connections=None,
                max_keepalive_connections=MAX_KEPT,
                keepalive_expiry=MAX_IDLE_SECONDS,
                network_backend=self._network,
            )
            pool = self._pools.setdefault((address.scheme, proxy), made)
        return pool


def _request(method: str, address: Address, headers: Headers) -> httpcore.Request:
    # Brackets make httpcore write a correct CONNECT for an IPv6 address. The backend connects to `address` itself.
    host = f"[{address.host}]" if ":" in address.host else address.host
    port = None if address.port == PORTS[address.scheme] else address.port
    url = httpcore.URL(scheme=address.scheme, host=host, port=port, target=address.target)
    return httpcore.Request(method, url, headers=[("Host", address.authority), *COMMON_HEADERS, *headers])


def _httpcore_proxy(proxy: Proxy) -> httpcore.Proxy:
    headers = [("Proxy-Authorization", proxy.authorization)] if proxy.authorization else []
    return httpcore.Proxy(httpcore.URL(scheme="http", host=proxy.host, port=proxy.port, target="/"), headers=headers)


def _proxy_refuses(address: Address, proxy: Proxy, status: int) -> AccessDenied:
    return AccessDenied(
        f"{address.shown} could not be read: {proxy.shown} answers {status}.",
        hint=f"Check the user name and password in {address.scheme}_proxy.",
    )
