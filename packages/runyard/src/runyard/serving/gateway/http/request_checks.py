"""Checks of a request's head: Host, Authorization and Origin."""

import hmac
import ipaddress
import time

from runyard.core.listen_settings import ANY_ADDRESS, LOOPBACK_NAMES, matches_name
from runyard.core.records.web_services import ServiceSpec
from runyard.serving.gateway.dispatch.request import Refusal
from runyard.serving.service_tokens import is_token_good

_MOST_REMEMBERED = 64


class HostCheck:
    """Refuses requests with an unknown Host header. This stops DNS rebinding: another site's page can resolve its own
    name to this machine, but its browser sends that name."""

    def __init__(self, spec: ServiceSpec) -> None:
        self._names = (*sorted(LOOPBACK_NAMES), *(name.lower().rstrip(".") for name in spec.host_names))
        self._takes_any_address = spec.host in ANY_ADDRESS
        if not self._takes_any_address:
            self._names = (*dict.fromkeys((*self._names, spec.host.lower())),)
        self._accepted: set[bytes] = set()

    def refusal(self, header: bytes | None) -> Refusal | None:
        if header in self._accepted:
            return None
        if not header:
            return Refusal(400, "The request has no Host header. Send the name by which this service is reached.")
        host = _host_of(header)
        if host is None:
            return Refusal(400, f"The Host header {_shown(header)} is no host name with or without a port.")
        if not any(matches_name(host, name) for name in self._names) and not (
            self._takes_any_address and _is_address(host)
        ):
            return Refusal(
                421,
                f"This service does not go by the name in the Host header, {_shown(header)}. "
                f"Use one of these: {', '.join(self._names)}; an operator can name more.",
            )
        if len(self._accepted) < _MOST_REMEMBERED:
            self._accepted.add(header)
        return None


def _host_of(header: bytes) -> str | None:
    text = header.decode("latin-1")
    if text.startswith("["):
        host, bracket, port = text[1:].partition("]")
        if not bracket or not _is_address(host) or (port and not port.startswith(":")):
            return None
        port = port[1:]
    else:
        host, _, port = text.partition(":")
    if not host or (port and not (port.isascii() and port.isdigit())):
        return None
    return host.lower()


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _shown(header: bytes) -> str:
    return ascii(header[:100].decode("latin-1"))


class KeyCheck:
    """Checks the key or token in the Authorization header."""

    def __init__(self, spec: ServiceSpec) -> None:
        self._service_id = spec.id
        self._secret = spec.admission.token_secret
        self._keys = () if self._secret else tuple(key.encode() for key in spec.admission.keys)
        self.is_open = not self._keys and not self._secret

    def refusal(self, authorization: bytes | None) -> Refusal | None:
        if self.is_open:
            return None
        wanted = "token" if self._secret else "key"
        scheme, _, given = (authorization or b"").strip().partition(b" ")
        if scheme.lower() != b"bearer":
            header = f"Authorization: Bearer {wanted.upper()}"
            return Refusal(401, f"This service asks for a {wanted}. Send it in a header: {header}")
        if self._is_valid(given.strip()):
            return None
        if self._secret:
            return Refusal(401, "The token is wrong or has expired. Get a new one with get_token().")
        return Refusal(401, "The key is not one of this service. Get its keys with get_keys().")

    def _is_valid(self, given: bytes) -> bool:
        if self._secret:
            return is_token_good(given.decode("latin-1"), self._secret, self._service_id, time.time())
        found = False
        for key in self._keys:
            found |= hmac.compare_digest(given, key)
        return found


class CorsPolicy:
    """CORS: pages of other origins may read answers only when AML_CORS_ORIGINS of the service names them."""

    def __init__(self, origins: str) -> None:
        """`origins` is separated by commas; '*' allows any."""
        self._origins = frozenset(filter(None, (origin.strip().lower() for origin in origins.split(","))))

    def fields(self, origin: bytes | None, *, is_preflight: bool) -> list[tuple[str, str]]:
        """Headers to add to an answer; empty for an origin that is not allowed."""
        if not self._origins or origin is None:
            return []
        text = origin.decode("latin-1")
        if "*" not in self._origins and text.lower() not in self._origins:
            return []
        named = [("Access-Control-Allow-Origin", text), ("Vary", "Origin")]
        if not is_preflight:
            return named
        return [
            *named,
            ("Access-Control-Allow-Methods", "GET, OPTIONS, POST"),
            ("Access-Control-Allow-Headers", "Authorization, Content-Type, x-ms-client-request-id, x-ms-request-id"),
            ("Access-Control-Max-Age", "600"),
        ]
