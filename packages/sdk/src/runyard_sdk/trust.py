"""Connections to a service, with TLS certificates of the system and of RUNYARD_CA's file."""

import os
import sys

from runyard_sdk.errors import ServiceUnavailable

_PARTIAL_CHAIN, _STRICT = 0x80000, 0x20  # only newer Pythons name it in ssl
_contexts = {}


def connection_to(url, timeout):
    """Unopened connection. Raises ServiceUnavailable for an invalid URL or unreadable certificates."""
    from http.client import HTTPConnection, HTTPSConnection
    from urllib.parse import urlsplit

    try:
        address = urlsplit(url)
        scheme, host, port = address.scheme, address.hostname, address.port
    except ValueError:
        scheme, host, port = "", None, None
    if scheme not in ("http", "https") or not host or port == 0:
        raise ServiceUnavailable("{!r} is not the address of a service.".format(url),
                                 hint="Set RUNYARD_URL as in https://train.example:8443.", url=url)
    if scheme == "http":
        return HTTPConnection(host, port, timeout=timeout)
    return HTTPSConnection(host, port, timeout=timeout, context=_context())


def is_about_trust(error):
    """Whether the other side was reached and its certificate rejected: retrying would not help."""
    ssl = sys.modules.get("ssl")  # missing where nothing was encrypted
    # Before Python 3.7 a wrong host name is a ValueError, and a wrong issuer a plain SSLError.
    return ssl is not None and (isinstance(error, ssl.CertificateError)
                                or getattr(error, "reason", "") == "CERTIFICATE_VERIFY_FAILED")


def untrusted(url, error):
    given = os.environ.get("RUNYARD_CA")
    why = getattr(error, "verify_message", "") or str(error)
    if given:
        hint = "RUNYARD_CA is {}: is it the file that the service's operator gave you, and RUNYARD_URL the right name?"
        hint = hint.format(given)
    else:
        hint = "Set RUNYARD_CA to the file of certificates that the service's operator gave you."
    return ServiceUnavailable("The certificate of {} is not trusted: {}.".format(url, why.rstrip(".")), hint=hint,
                              url=url)


def _context():
    """TLS context, cached per process and file: reading the system's certificates is slow."""
    given = os.environ.get("RUNYARD_CA") or ""
    if given not in _contexts:
        _contexts[given] = _trusting(given)
    return _contexts[given]


def _trusting(given):
    import ssl

    context = ssl.create_default_context()
    # Accept a self-signed certificate given here.
    # Python 3.13 and newer are strict about the form of certificates; all Pythons shall accept the same ones.
    context.verify_flags = (context.verify_flags | _PARTIAL_CHAIN) & ~_STRICT
    if given:
        try:
            context.load_verify_locations(cafile=given)
        except (OSError, ValueError) as error:
            raise ServiceUnavailable("RUNYARD_CA is {!r}, which cannot be used: {}.".format(given, error),
                                     hint="Set it to a readable file of certificates in PEM form.")
    return context
