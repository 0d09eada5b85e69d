from collections.abc import Iterable

from starlette.types import ASGIApp, Receive, Scope, Send

_FOR, _PROTO, _HOST = b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host"
_SCHEMES = frozenset({"http", "https"})


class ForwardedRequests:
    """Middleware that applies X-Forwarded-For, -Proto and -Host, from trusted proxies only."""

    def __init__(self, app: ASGIApp, proxies: frozenset[str]) -> None:
        self._app, self._proxies = app, proxies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = scope.get("client")
        if client and self._proxies and client[0].removeprefix("::ffff:") in self._proxies:
            self._apply(scope, client[0])
        await self._app(scope, receive, send)

    def _apply(self, scope: Scope, proxy: str) -> None:
        forwarded = {name: value.decode("latin-1") for name, value in scope["headers"] if name in (_FOR, _PROTO, _HOST)}
        if _FOR in forwarded:
            scope["client"] = (self._client_address(forwarded[_FOR].split(","), proxy), 0)
        if forwarded.get(_PROTO, "").strip().lower() in _SCHEMES:
            scope["scheme"] = forwarded[_PROTO].strip().lower()
        if forwarded.get(_HOST, "").strip():
            rest = [(name, value) for name, value in scope["headers"] if name != b"host"]
            scope["headers"] = [(b"host", forwarded[_HOST].strip().encode("latin-1")), *rest]

    def _client_address(self, addresses: Iterable[str], proxy: str) -> str:
        """The last address that is no trusted proxy; earlier ones could be made up by the client."""
        for address in reversed([one.strip() for one in addresses]):
            if address and address not in self._proxies:
                return address
        return proxy
