"""What a proxy says of the requests that it passes on."""

from collections.abc import Iterable

from starlette.types import ASGIApp, Receive, Scope, Send

_FOR, _PROTO, _HOST = b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host"
_SCHEMES = frozenset({"http", "https"})


class ForwardedRequests:
    """Believes X-Forwarded-For, -Proto and -Host of the proxies that the operator names, and of nobody else."""

    def __init__(self, app: ASGIApp, proxies: frozenset[str]) -> None:
        self._app, self._proxies = app, proxies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = scope.get("client")
        if client and self._proxies and client[0].removeprefix("::ffff:") in self._proxies:
            self._believe(scope, client[0])
        await self._app(scope, receive, send)

    def _believe(self, scope: Scope, proxy: str) -> None:
        said = {name: value.decode("latin-1") for name, value in scope["headers"] if name in (_FOR, _PROTO, _HOST)}
        if _FOR in said:
            scope["client"] = (self._first_stranger(said[_FOR].split(","), proxy), 0)
        if said.get(_PROTO, "").strip().lower() in _SCHEMES:
            scope["scheme"] = said[_PROTO].strip().lower()
        if said.get(_HOST, "").strip():
            rest = [(name, value) for name, value in scope["headers"] if name != b"host"]
            scope["headers"] = [(b"host", said[_HOST].strip().encode("latin-1")), *rest]

    def _first_stranger(self, addresses: Iterable[str], proxy: str) -> str:
        """The last address that no named proxy has: those before it are the client's own word."""
        for address in reversed([one.strip() for one in addresses]):
            if address and address not in self._proxies:
                return address
        return proxy
