from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Certificate:
    """Files in PEM form."""

    chain: Path
    key: Path
    authority: Path
    """Trusted by nobody who is not told to."""


def make_certificate(
    folder: Path, *names: str, begins: timedelta = -timedelta(hours=1), ends: timedelta = timedelta(days=2)
) -> Certificate:
    """For a server of these host names and addresses, else of 127.0.0.1; good from and until so long from now."""
    folder.mkdir(exist_ok=True)
    named = x509.SubjectAlternativeName([_general_name(name) for name in names or ("127.0.0.1",)])
    authority_key, server_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority = (
        _builder("Runyard test authority", "Runyard test authority", authority_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    server = (
        _builder("server", "Runyard test authority", server_key, begins, ends)
        .add_extension(named, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    made = Certificate(folder / "chain.pem", folder / "key.pem", folder / "authority.pem")
    made.chain.write_bytes(_pem(server) + _pem(authority))
    made.authority.write_bytes(_pem(authority))
    made.key.write_bytes(
        server_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return made


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _builder(
    name: str,
    issuer: str,
    key: ec.EllipticCurvePrivateKey,
    begins: timedelta = -timedelta(hours=1),
    ends: timedelta = timedelta(days=2),
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + begins)
        .not_valid_after(now + ends)
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
