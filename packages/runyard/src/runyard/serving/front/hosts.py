"""Checks of a request's head: Host, Authorization and Origin."""

import ipaddress

from runyard.listen_settings import EVERYWHERE, LOOPBACK_NAMES, is_named
from runyard.model.web_services import ServiceSpec
from runyard.serving.dispatch.request import Refusal

_MOST_REMEMBERED = 64


class KnownHosts:
    """Refuses requests with an unknown Host header. This stops DNS rebinding: another site's page can resolve its own
    name to this machine, but its browser sends that name."""

    def __init__(self, spec: ServiceSpec) -> None:
        self._names = (*sorted(LOOPBACK_NAMES), *(name.lower().rstrip(".") for name in spec.host_names))
        self._takes_any_address = spec.host in EVERYWHERE
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
        if not any(is_named(host, name) for name in self._names) and not (
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
