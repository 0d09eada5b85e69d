"""Access from other machines: the second listener, its certificate, and the allowed host names."""

import contextlib
import resource
import socket
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from runyard.errors import InvalidArgument
from runyard.http.open_listener import OpenListener, limits_here
from runyard.http.server import listen
from runyard.listen_settings import EVERYWHERE, Listen, in_url, is_loopback, unencrypted
from runyard.settings import Settings

if TYPE_CHECKING:
    from runyard.http.tls import Certificate

_ANY_OUTSIDE = ("192.0.2.1", 9)  # TEST-NET-1: asks the kernel for the route; nothing is sent


def opened_to_others(settings: Settings) -> tuple[Settings, OpenListener | None]:
    """Open the listener that the settings ask for. The returned settings hold what is known only then: `node_url`,
    `node_ca`, the port, and all allowed host names. Raises InvalidArgument that says what to change."""
    _allow_many_files()
    if not is_loopback(settings.host) and not settings.allows_plain:
        raise unencrypted(f"RUNYARD_HOST={settings.host}")
    if settings.listen is None:
        return replace(settings, node_url=settings.public_url, node_ca=_operators_ca(settings)), None
    from runyard.http.tls import read_certificate, server_context  # 50 ms that few services need

    asked = settings.listen
    certificate = read_certificate(asked.certificate) if asked.certificate else None
    context = server_context(asked.certificate, asked.key) if asked.certificate and asked.key else None
    opened = listen(asked.host, asked.port)
    bound = replace(asked, port=opened.getsockname()[1])
    try:
        url = settings.public_url or _url(bound, certificate)
    except InvalidArgument:
        opened.close()
        raise
    found = replace(
        settings,
        listen=bound,
        node_url=url,
        node_ca=_operators_ca(settings) or (certificate.text if certificate else ""),
        allowed_hosts=settings.allowed_hosts | _names(bound, certificate, url),
    )
    return found, OpenListener(opened, context, limits_here(), proxies=settings.trusted_proxies)


def _operators_ca(settings: Settings) -> str:
    return settings.ca_file.read_text(errors="replace") if settings.ca_file else ""


def _url(bound: Listen, certificate: "Certificate | None") -> str:
    """Address of the listener by a host name that the certificate covers. Raises InvalidArgument."""
    scheme = "https" if certificate else "http"
    if bound.host not in EVERYWHERE:
        host = bound.host
    elif certificate:
        host = _own_name_in(certificate)
    else:
        host = _own_address()
    if certificate and not certificate.covers(host):
        raise InvalidArgument(
            f"The certificate is for {', '.join(certificate.names) or 'no host'} and not for {host}, so every client "
            "would refuse it.",
            hint=f"Get one for {host}, or set RUNYARD_PUBLIC_URL to an https address by a name that it has.",
        )
    return f"{scheme}://{in_url(host)}:{bound.port}"


def _own_name_in(certificate: "Certificate") -> str:
    """This machine's name if the certificate covers it, else the first name in the certificate."""
    for host in (socket.getfqdn(), socket.gethostname(), _own_address()):
        if certificate.covers(host):
            return host
    whole = [name for name in certificate.names if not name.startswith("*")]
    return next((name for name in whole if not is_loopback(name)), whole[0] if whole else _own_address())


def _own_address() -> str:
    """Address of the default route's interface; loopback without one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, contextlib.suppress(OSError):
        probe.connect(_ANY_OUTSIDE)
        return str(probe.getsockname()[0])
    return "127.0.0.1"


def _names(bound: Listen, certificate: "Certificate | None", url: str) -> frozenset[str]:
    names = {urlsplit(url).hostname or "", *(certificate.names if certificate else ())}
    if bound.host in EVERYWHERE:
        names |= {socket.gethostname(), socket.getfqdn()}
    else:
        names.add(bound.host)
    return frozenset(name.lower() for name in names if name)


def _allow_many_files() -> None:
    """Raise the limit of open files: each connection is one, and the usual limit is low."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, hard if hard < 1 << 16 else 1 << 16), hard))
