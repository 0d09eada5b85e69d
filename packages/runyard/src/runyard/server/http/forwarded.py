"""X-Forwarded-* headers: who asked, and by which name, where a reverse proxy stands between."""

from collections.abc import Iterable

from starlette.types import Scope

_FORWARDED_FOR, _FORWARDED_PROTO, _FORWARDED_HOST = b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host"
_SCHEMES = frozenset({"http", "https"})


class ForwardedHeaders:
    """Applies X-Forwarded-For, -Proto and -Host to requests, from trusted proxies only."""

    def __init__(self, proxies: frozenset[str]) -> None:
        self._proxies = proxies

    def apply(self, scope: Scope) -> None:
        client = scope.get("client")
        if client and self._proxies and client[0].removeprefix("::ffff:") in self._proxies:
            self._apply(scope, client[0])

    def _apply(self, scope: Scope, proxy: str) -> None:
        forwarded = {
            name: value.decode("latin-1")
            for name, value in scope["headers"]
            if name in (_FORWARDED_FOR, _FORWARDED_PROTO, _FORWARDED_HOST)
        }
        if _FORWARDED_FOR in forwarded:
            scope["client"] = (self._client_address(forwarded[_FORWARDED_FOR].split(","), proxy), 0)
        if forwarded.get(_FORWARDED_PROTO, "").strip().lower() in _SCHEMES:
            scope["scheme"] = forwarded[_FORWARDED_PROTO].strip().lower()
        if forwarded.get(_FORWARDED_HOST, "").strip():
            rest = [(name, value) for name, value in scope["headers"] if name != b"host"]
            scope["headers"] = [(b"host", forwarded[_FORWARDED_HOST].strip().encode("latin-1")), *rest]

    def _client_address(self, addresses: Iterable[str], proxy: str) -> str:
        """The last address that is no trusted proxy; earlier ones could be made up by the client."""
        for address in reversed([one.strip() for one in addresses]):
            if address and address not in self._proxies:
                return address
        return proxy
