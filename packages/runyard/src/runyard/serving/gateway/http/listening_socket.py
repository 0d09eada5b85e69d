"""Listening socket of a web service's port, and its TLS certificate."""

import socket
import ssl
import tempfile
from pathlib import Path

from runyard.core.errors import InvalidArgument
from runyard.core.listen_settings import listen_error, url_host
from runyard.core.records.web_services import ServiceSpec

BACKLOG = 1024


def open_listening_socket(spec: ServiceSpec, port: int) -> socket.socket:
    """Bind and listen; port 0 means any free one. Raises InvalidArgument with the reason."""
    family = socket.AF_INET6 if ":" in spec.host else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((spec.host, port))
        opened.listen(BACKLOG)
    except (OSError, OverflowError, UnicodeError) as problem:
        opened.close()
        raise _cannot_listen(spec, port, problem) from None
    return opened


def tls_context(spec: ServiceSpec) -> ssl.SSLContext | None:
    """None for plain HTTP. Raises InvalidArgument when certificate and key cannot be used together."""
    if not spec.certificate:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    with tempfile.TemporaryDirectory() as folder:  # OpenSSL reads files only; the folder is readable by its owner only
        certificate, key = Path(folder, "certificate.pem"), Path(folder, "key.pem")
        certificate.write_text(spec.certificate)
        key.write_text(spec.private_key)
        try:
            context.load_cert_chain(certificate, key, password=_no_password)
        except ssl.SSLError as problem:
            raise InvalidArgument(
                f"The certificate and the key of web service {spec.name!r} cannot be used together: "
                f"{problem.reason or problem}.",
                hint="Give ssl_cert_pem_file and ssl_key_pem_file that were made together, in PEM form.",
            ) from None
    return context


def _no_password() -> str:
    raise InvalidArgument(
        "The key in ssl_key_pem_file is encrypted, and a web service has nobody to ask for its password.",
        hint="Decrypt it first.",
    )


def _cannot_listen(spec: ServiceSpec, port: int, problem: Exception) -> InvalidArgument:
    why, hint = listen_error(problem)
    return InvalidArgument(
        f"Web service {spec.name!r} cannot listen on {url_host(spec.host)}:{port}: {why}.", hint=hint
    )
