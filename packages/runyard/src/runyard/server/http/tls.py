"""TLS certificate of the service: read and checked before anybody connects."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtensionOID

from runyard.core.errors import InvalidArgument
from runyard.core.listen_settings import matches_name


@dataclass(frozen=True)
class Certificate:
    names: tuple[str, ...]
    """Host names and addresses that it covers, in lower case; a name may begin with '*.'."""
    text: str
    """Certificate and chain in PEM form, for clients to trust."""

    def covers(self, host: str) -> bool:
        return any(matches_name(host, name) for name in self.names)


def read_certificate(path: Path) -> Certificate:
    """Raise InvalidArgument for a file without a certificate, or with one that is not valid now."""
    try:
        chain = x509.load_pem_x509_certificates(_content(path, "--tls-cert"))
    except ValueError as problem:
        raise InvalidArgument(
            f"--tls-cert {path} holds no certificate in PEM form.",
            hint="Its first line is -----BEGIN CERTIFICATE-----.",
        ) from problem
    own, now = chain[0], datetime.now(UTC)
    if own.not_valid_after_utc < now:
        raise InvalidArgument(
            f"The certificate in --tls-cert {path} has ended on {own.not_valid_after_utc:%Y-%m-%d}.", hint="Renew it."
        )
    if own.not_valid_before_utc > now:
        raise InvalidArgument(
            f"The certificate in --tls-cert {path} begins on {own.not_valid_before_utc:%Y-%m-%d %H:%M} UTC.",
            hint="Wait until then, or look at this machine's clock.",
        )
    return Certificate(_names(own, path), "".join(one.public_bytes(Encoding.PEM).decode() for one in chain))


def server_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """Context for TLS 1.2 or newer. Raises InvalidArgument where the two files do not fit together."""
    _content(key, "--tls-key")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key, password=_no_password(key))
    except ssl.SSLError as problem:
        if problem.reason == "KEY_VALUES_MISMATCH":
            raise InvalidArgument(
                f"The key in --tls-key {key} is not the one of the certificate in --tls-cert {certificate}.",
                hint="Give the two files that were made together; in --tls-cert its own certificate comes first.",
            ) from problem
        raise InvalidArgument(
            f"--tls-key {key} holds no private key in PEM form, or one of a kind that is not known.",
            hint="One of its lines is -----BEGIN PRIVATE KEY-----.",
        ) from problem
    return context


def _no_password(key: Path) -> Callable[[], str]:
    """Password callback that refuses; without one OpenSSL asks the terminal."""

    def refuse() -> str:
        raise InvalidArgument(
            f"The key in --tls-key {key} is encrypted, and a service has nobody to ask for its password.",
            hint="Decrypt it into a file that only this user can read.",
        )

    return refuse


def _content(path: Path, option: str) -> bytes:
    try:
        return path.read_bytes()
    except (OSError, ValueError) as problem:
        why = getattr(problem, "strerror", None) or "no name of a file"
        raise InvalidArgument(f"{option} {path} cannot be read: {why}.", hint="Give a file in PEM form.") from problem


def _names(certificate: x509.Certificate, path: Path) -> tuple[str, ...]:
    try:
        found = certificate.extensions.get_extension_for_oid(ExtensionOID.SUBJECT_ALTERNATIVE_NAME).value
    except x509.ExtensionNotFound:
        found = None
    if not isinstance(found, x509.SubjectAlternativeName):
        raise InvalidArgument(
            f"The certificate in --tls-cert {path} names no host (it has no subjectAltName), so no client takes it.",
            hint="Have it made for the names by which the service is reached.",
        )
    hosts = [name.lower() for name in found.get_values_for_type(x509.DNSName)]
    return (*hosts, *(str(address) for address in found.get_values_for_type(x509.IPAddress)))
