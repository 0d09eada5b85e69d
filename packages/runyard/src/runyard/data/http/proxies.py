import base64
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from runyard.core.errors import InvalidArgument
from runyard.data.http.addresses import Address


@dataclass(frozen=True)
class Proxy:
    host: str
    port: int
    authorization: str
    """Value of the header Proxy-Authorization; empty without a login."""

    @property
    def shown(self) -> str:
        return f"the proxy {self.host}:{self.port}"

    def __repr__(self) -> str:
        return f"Proxy({self.host}:{self.port})"


class Proxies:
    """Chooses a proxy by the variables http_proxy, https_proxy, all_proxy and no_proxy; lower-case names win.

    The connection to a proxy is plain http, whatever its scheme says, as in urllib. Raises InvalidArgument for socks.
    """

    def __init__(self, variables: Mapping[str, str]) -> None:
        lower = {name.lower(): value for name, value in sorted(variables.items()) if value.strip()}
        self._by_scheme = {
            scheme: _parse(f"{scheme}_proxy", lower[f"{scheme}_proxy"])
            for scheme in ("http", "https", "all")
            if f"{scheme}_proxy" in lower
        }
        self._exceptions = [part.strip().lower() for part in lower.get("no_proxy", "").split(",") if part.strip()]

    def find(self, address: Address) -> Proxy | None:
        proxy = self._by_scheme.get(address.scheme) or self._by_scheme.get("all")
        if proxy and not any(_is_excepted(address, exception) for exception in self._exceptions):
            return proxy
        return None


def _parse(name: str, value: str) -> Proxy:
    try:
        parts = urlsplit(value if "//" in value else f"//{value}")
        host, port = parts.hostname, parts.port or 80
    except ValueError:
        host, port = None, 0
    if not host or parts.scheme not in ("", "http", "https"):
        raise InvalidArgument(f"{name} names no proxy that can be used.", hint="Set it to http://host:port.")
    login = parts.netloc.rpartition("@")[0]
    secret = base64.b64encode(unquote(login).encode()).decode("ascii")
    return Proxy(host, port, f"Basic {secret}" if login else "")


def _is_excepted(address: Address, exception: str) -> bool:
    if exception == "*":
        return True
    network = _network(exception)
    if network:
        try:
            return ipaddress.ip_address(address.host) in network
        except ValueError:
            return False
    name, _, port = exception.partition(":")
    name = name.removeprefix("*").lstrip(".")
    if port and port != str(address.port):
        return False
    return address.host == name or address.host.endswith(f".{name}")


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(text.strip("[]"), strict=False)
    except ValueError:
        return None
