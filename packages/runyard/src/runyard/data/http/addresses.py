import re
from functools import lru_cache
from ipaddress import IPv6Address
from typing import NamedTuple
from urllib.parse import quote, urljoin, urlsplit

from runyard.core.errors import DataFailed, InvalidArgument

MAX_CHARACTERS = 8192
PORTS = {"http": 80, "https": 443}
UNSENDABLE = re.compile(r"[\x00\ud800-\udfff]")
"""Characters that cannot be percent-encoded."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_HOST = re.compile(r"[a-z0-9._~-]{1,253}")
_SAFE = "%/:=&~+!$,;'@()*[]|"
_PLAIN = re.compile(r"(https?://[^/?#]+)(/[A-Za-z0-9_.~%/:=&+!$,;'@()*-]*)(?:\?([A-Za-z0-9_.~%/:=&+!$,;'@()*?-]*))?")


class Address(NamedTuple):
    """Parsed http(s) URL, percent-encoded."""

    scheme: str
    host: str
    port: int
    path: str
    query: str

    @property
    def target(self) -> str:
        """Request target: path and query."""
        return f"{self.path}?{self.query}" if self.query else self.path

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def shown(self) -> str:
        """URL without query, for messages: a query may hold a signature, which is a secret."""
        return f"{self.scheme}://{self.authority}{self.path}"


def parse_address(url: str) -> Address:
    """Parse a URL. Raises InvalidArgument unless it is http(s) without user name and password."""
    if len(url) > MAX_CHARACTERS:
        raise InvalidArgument(
            f"A web address has at most {MAX_CHARACTERS} characters, got {len(url)}: {_without_query(url)[:80]!r}..."
        )
    plain = _PLAIN.fullmatch(url)
    if plain:
        return Address(*_parse_origin(plain[1]), plain[2], plain[3] or "")
    if _CONTROL.search(url):
        raise InvalidArgument(
            f"The web address {_without_query(url)!r} holds a control character or half a character. Quote it."
        )
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise InvalidArgument(f"{_without_query(url)!r} is no web address: {error}.") from None
    origin = _parse_origin(f"{parts.scheme}://{parts.netloc}")
    return Address(*origin, quote(parts.path, safe=_SAFE) or "/", quote(parts.query, safe=_SAFE + "?"))


def redirected(address: Address, location: str) -> Address:
    """Target of a redirect. Raises DataFailed if `location` is no http(s) URL."""
    target = location.encode("latin-1", "replace").decode("utf-8", "replace")
    try:
        return parse_address(urljoin(f"{address.scheme}://{address.authority}{address.target}", target))
    except (InvalidArgument, ValueError) as error:
        raise DataFailed(
            f"{address.shown} redirects to an address that cannot be followed: {error}",
            hint="Name the address of the file itself.",
        ) from None


@lru_cache(maxsize=1024)
def _parse_origin(text: str) -> tuple[str, str, int]:
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise InvalidArgument(f"{_without_query(text)!r} begins no web address: {error}.") from None
    if parts.scheme not in PORTS or not host:
        raise InvalidArgument(f"{_without_query(text)!r} is no web address; one begins with http:// or https://.")
    if "@" in parts.netloc:
        raise InvalidArgument(
            f"The address of {host} holds a user name or password, which every log and dataset would show.",
            hint="Take it out; register a datastore to use credentials.",
        )
    return parts.scheme, _checked_host(host), PORTS[parts.scheme] if port is None else port


def _without_query(url: str) -> str:
    """Text for a message, perhaps no URL at all: without query, user name and password."""
    begin = url.partition("?")[0].partition("#")[0]
    scheme, slashes, rest = begin.partition("//")
    _, at, host = rest.rpartition("@")
    return (scheme + slashes + host if at else begin)[:200]


def _checked_host(host: str) -> str:
    if ":" in host:
        try:
            address = IPv6Address(host)
        except ValueError:
            address = None
        if not address or address.scope_id:
            raise InvalidArgument(f"{host!r} in the web address is no IPv6 address.")
        return str(address)
    try:
        plain = host.encode("idna").decode("ascii").lower()
    except UnicodeError:
        plain = ""
    if not _HOST.fullmatch(plain):
        raise InvalidArgument(f"{host!r} in the web address is no host name.")
    return plain
