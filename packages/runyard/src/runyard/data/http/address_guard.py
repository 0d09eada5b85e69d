"""Checks which IP addresses may be connected to (protection from SSRF).

Host names are resolved here, and connections go to the checked IP addresses: so DNS cannot return another address
between check and use. Link-local addresses and the metadata services of clouds are never allowed: they hand out the
credentials of the machine. All other addresses that are not public (loopback, private, unique-local, shared, multicast,
unspecified, reserved) need `NetworkRules.allow_private`.

A proxy of `NetworkRules.variables` may be private: the operator, or the user of a laptop, chose it. Requests through a
proxy are checked as far as possible: an IP address always, a name only if it resolves here. Beyond that the proxy
decides.
"""

import ipaddress
import socket
from ipaddress import IPv4Address, IPv6Address, IPv6Network

from runyard.core.errors import AccessDenied, Unreachable
from runyard.core.records.data import NetworkRules
from runyard.data.http.addresses import Address, parse_address
from runyard.data.http.retries import TransientError

SocketAddress = tuple[socket.AddressFamily, tuple[str, int] | tuple[str, int, int, int]]
"""Family for socket() and address for connect()."""

_METADATA = {
    ipaddress.ip_address(text)
    for text in ("fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "168.63.129.16", "192.0.0.192")
}
_NAT64 = IPv6Network("64:ff9b::/96")
_IPV4_COMPATIBLE = IPv6Network("::/96")


def check_endpoint(url: str, rules: NetworkRules) -> None:
    """Check a URL for a client that resolves names itself. Raises AccessDenied if any address of the host is forbidden.

    A name that does not resolve passes: that client reports it.
    """
    address = parse_address(url)
    try:
        found = _resolve(address.host, address.port)
    except (TransientError, Unreachable):
        return
    for _, sockaddr in found:
        reason = why_refused(str(sockaddr[0]), rules)
        if reason:
            raise _refused(address, reason)


def check_proxied(address: Address, rules: NetworkRules) -> None:
    """Raise AccessDenied if the address may not be requested through a proxy."""
    if rules.allow_private and not _is_numeric(address.host):
        return
    check_endpoint(f"{address.scheme}://{address.authority}", rules)


def allowed_addresses(address: Address, rules: NetworkRules) -> list[SocketAddress]:
    """Resolve the host and return its allowed IP addresses. Raises AccessDenied if none is allowed."""
    reasons, targets = [], []
    for family, sockaddr in _resolve(address.host, address.port):
        reason = why_refused(str(sockaddr[0]), rules)
        if reason:
            reasons.append(reason)
        else:
            targets.append((family, sockaddr))
    if not targets:
        raise _refused(address, reasons[0])
    return targets


def proxy_addresses(host: str, port: int) -> list[SocketAddress]:
    """Resolve a proxy. Its addresses may be private but not link-local."""
    trusted = NetworkRules(allow_private=True)
    return allowed_addresses(Address("http", host, port, "/", ""), trusted)


def why_refused(text: str, rules: NetworkRules) -> str:
    """Why an IP address is forbidden; empty if it is allowed."""
    address = ipaddress.ip_address(text)
    real = _embedded_ipv4(address)
    if any(each.is_link_local for each in (address, real)):
        return f"{text} is a link-local address, which is never read"
    if real in _METADATA:
        return f"{text} is a cloud's metadata service, which is never read"
    return "" if rules.allow_private or _is_public(real) else f"{text} is not a public address"


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    is_old_private = isinstance(address, IPv6Address) and address.is_site_local
    return address.is_global and not (address.is_multicast or address.is_reserved or is_old_private)


def _embedded_ipv4(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """IPv4 address embedded in an IPv6 address (mapped, 6to4, Teredo, NAT64), else the address itself."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped or address.sixtofour:
        return address.ipv4_mapped or address.sixtofour or address
    if address.teredo:
        return address.teredo[1]
    if address in _NAT64 or (address in _IPV4_COMPATIBLE and int(address) > 1):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return IPv6Address(int(address))


def _resolve(host: str, port: int) -> list[SocketAddress]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        if error.errno == socket.EAI_AGAIN:
            raise TransientError(f"the name {host!r} could not be looked up") from error
        raise Unreachable(
            f"There is no host {host!r}: {error.strerror}.",
            hint="Check the address, the proxy settings and the network.",
        ) from error
    except (OSError, UnicodeError) as error:
        raise TransientError(f"the name {host!r} could not be looked up: {error}") from error
    return [(family, sockaddr) for family, _, _, _, sockaddr in found if isinstance(sockaddr[0], str)]


def _is_numeric(host: str) -> bool:
    """Whether the host is an IP address, also in the decimal, octal, hexadecimal and short forms of connect()."""
    if ":" in host:
        return True
    try:
        socket.inet_aton(host)
    except OSError:
        return False
    return True


def _refused(address: Address, reason: str) -> AccessDenied:
    return AccessDenied(
        f"{address.shown} may not be read: {reason}.",
        hint="Name a public address; private ones are for the operator of this server to allow.",
    )
