import ssl
from collections.abc import Mapping
from pathlib import Path

from runyard.errors import DataFailed

_CERTIFICATES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


def trust_of(variables: Mapping[str, str]) -> ssl.SSLContext:
    """Trusts the certificates that the variables name, else those of the system."""
    name = next((name for name in _CERTIFICATES if variables.get(name)), "SSL_CERT_DIR")
    place = variables.get(name) or None
    folder = place if place and Path(place).is_dir() else variables.get("SSL_CERT_DIR") or None
    try:
        trust = ssl.create_default_context(cafile=None if folder == place else place, capath=folder)
    except OSError as error:
        raise DataFailed(
            f"The certificates in {place!r} cannot be read: {error}.",
            hint=f"Set {name} to a readable bundle of certificates in PEM form.",
        ) from error
    # Python before 3.11.4 sets it, and a connection that is cut looks like the end of a body then.
    trust.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF
    return trust
