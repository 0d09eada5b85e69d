"""Which addresses of the network may be connected to.

Names are resolved here and the very addresses that passed are connected to, so that a name cannot mean one address
when it is checked and another when it is used. Link-local addresses and those of the clouds' metadata services are
never connected to: they hand out the credentials of the machine. Everything else that is not public (loopback,
private, unique-local, shared, multicast, unspecified, reserved) needs `NetworkRules.allow_private`.

A proxy of `NetworkRules.variables` may be private, since whoever set the rules chose it: the operator, or the user of
a laptop. What is asked of the proxy is checked as far as it can be: an address always, a name when it resolves here
too. Beyond that the proxy decides.
"""

import ipaddress
import socket
from ipaddress import IPv4Address, IPv6Address, IPv6Network

from runyard.errors import AccessDenied, Unreachable
from runyard.model.data import NetworkRules
from runyard.web.addresses import Address, parse_address
from runyard.web.troubles import Broken

Target = tuple[socket.AddressFamily, tuple[str, int] | tuple[str, int, int, int]]
"""What socket() and connect() take."""

_METADATA = {
    ipaddress.ip_address(text)
    for text in ("fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "168.63.129.16", "192.0.0.192")
}
_NAT64 = IPv6Network("64:ff9b::/96")
_IPV4_COMPATIBLE = IPv6Network("::/96")


def check_endpoint(url: str, rules: NetworkRules) -> None:
    """For a client that resolves names itself: AccessDenied when any address of the host may not be connected to.
    A name that does not resolve passes, for that client to report."""
    address = parse_address(url)
    try:
        found = _resolve(address.host, address.port)
    except (Broken, Unreachable):
        return
    for _, place in found:
        reason = why_refused(str(place[0]), rules)
        if reason:
            raise _refused(address, reason)


def check_proxied(address: Address, rules: NetworkRules) -> None:
    """AccessDenied when a proxy may not be asked for the address."""
    if rules.allow_private and not _is_numeric(address.host):
        return
    check_endpoint(f"{address.scheme}://{address.authority}", rules)


def targets_of(address: Address, rules: NetworkRules) -> list[Target]:
    """The addresses of the host that may be connected to, at least one; AccessDenied when there is none."""
    reasons, targets = [], []
    for family, place in _resolve(address.host, address.port):
        reason = why_refused(str(place[0]), rules)
        if reason:
            reasons.append(reason)
        else:
            targets.append((family, place))
    if not targets:
        raise _refused(address, reasons[0])
    return targets


def proxy_targets(host: str, port: int) -> list[Target]:
    """The addresses of a proxy, which may be private but not link-local."""
    trusted = NetworkRules(allow_private=True)
    return targets_of(Address("http", host, port, "/", ""), trusted)


def why_refused(text: str, rules: NetworkRules) -> str:
    """Why a numeric address may not be connected to; empty when it may."""
    address = ipaddress.ip_address(text)
    meant = _meant(address)
    if any(each.is_link_local for each in (address, meant)):
        return f"{text} is a link-local address, which is never read"
    if meant in _METADATA:
        return f"{text} is a cloud's metadata service, which is never read"
    return "" if rules.allow_private or _is_public(meant) else f"{text} is not a public address"


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    is_old_private = isinstance(address, IPv6Address) and address.is_site_local
    return address.is_global and not (address.is_multicast or address.is_reserved or is_old_private)


def _meant(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address that an IPv6 one stands for, if it does."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped or address.sixtofour:
        return address.ipv4_mapped or address.sixtofour or address
    if address.teredo:
        return address.teredo[1]
    if address in _NAT64 or (address in _IPV4_COMPATIBLE and int(address) > 1):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return IPv6Address(int(address))


def _resolve(host: str, port: int) -> list[Target]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        if error.errno == socket.EAI_AGAIN:
            raise Broken(f"the name {host!r} could not be looked up") from error
        raise Unreachable(
            f"There is no host {host!r}: {error.strerror}.",
            hint="Check the address, the proxy settings and the network.",
        ) from error
    except (OSError, UnicodeError) as error:
        raise Broken(f"the name {host!r} could not be looked up: {error}") from error
    return [(family, place) for family, _, _, _, place in found if isinstance(place[0], str)]


def _is_numeric(host: str) -> bool:
    """Also the decimal, octal, hexadecimal and short forms, as connect() would read them."""
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
