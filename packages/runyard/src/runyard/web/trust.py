import ssl
from collections.abc import Mapping
from pathlib import Path

from runyard.errors import DataFailed

_CERTIFICATES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


def trust_of(variables: Mapping[str, str]) -> ssl.SSLContext:
    """TLS context that trusts the certificates that the variables name, else those of the system. Raises DataFailed."""
    name = next((name for name in _CERTIFICATES if variables.get(name)), "SSL_CERT_DIR")
    path = variables.get(name) or None
    folder = path if path and Path(path).is_dir() else variables.get("SSL_CERT_DIR") or None
    try:
        trust = ssl.create_default_context(cafile=None if folder == path else path, capath=folder)
    except OSError as error:
        raise DataFailed(
            f"The certificates in {path!r} cannot be read: {error}.",
            hint=f"Set {name} to a readable bundle of certificates in PEM form.",
        ) from error
    # Python before 3.11.4 sets this option, which makes a cut connection look like the end of a body.
    trust.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF
    return trust
