"""Access from other machines: the second listener, its certificate, and the allowed host names."""

import contextlib
import resource
import socket
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from runyard.core.errors import InvalidArgument
from runyard.core.listen_settings import ANY_ADDRESS, ListenAddress, is_loopback, unencrypted_error, url_host
from runyard.core.settings import Settings
from runyard.server.http.listener import HttpListener, connection_limits
from runyard.server.http.server import listen

if TYPE_CHECKING:
    from runyard.server.http.tls import Certificate

_ROUTE_PROBE = ("192.0.2.1", 9)  # TEST-NET-1: asks the kernel for the route; nothing is sent


def open_public_listener(settings: Settings) -> tuple[Settings, HttpListener | None]:
    """Open the listener that the settings ask for. The returned settings hold what is known only then: `node_url`,
    `node_ca`, the port, and all allowed host names. Raises InvalidArgument that says what to change."""
    _raise_open_file_limit()
    if not is_loopback(settings.host) and not settings.allows_plain:
        raise unencrypted_error(f"RUNYARD_HOST={settings.host}")
    if settings.listen is None:
        return replace(settings, node_url=settings.public_url, node_ca=_operators_ca(settings)), None
    from runyard.server.http.tls import read_certificate, server_context  # 50 ms that few services need

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
    return found, HttpListener(opened, context, connection_limits(), proxies=settings.trusted_proxies)


def _operators_ca(settings: Settings) -> str:
    return settings.ca_file.read_text(errors="replace") if settings.ca_file else ""


def _url(bound: ListenAddress, certificate: "Certificate | None") -> str:
    """Address of the listener by a host name that the certificate covers. Raises InvalidArgument."""
    scheme = "https" if certificate else "http"
    if bound.host not in ANY_ADDRESS:
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
    return f"{scheme}://{url_host(host)}:{bound.port}"


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
        probe.connect(_ROUTE_PROBE)
        return str(probe.getsockname()[0])
    return "127.0.0.1"


def _names(bound: ListenAddress, certificate: "Certificate | None", url: str) -> frozenset[str]:
    names = {urlsplit(url).hostname or "", *(certificate.names if certificate else ())}
    if bound.host in ANY_ADDRESS:
        names |= {socket.gethostname(), socket.getfqdn()}
    else:
        names.add(bound.host)
    return frozenset(name.lower() for name in names if name)


def _raise_open_file_limit() -> None:
    """Raise the limit of open files: each connection is one, and the usual limit is low."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, hard if hard < 1 << 16 else 1 << 16), hard))
