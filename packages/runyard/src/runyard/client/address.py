"""The address of a service, and the certificates that prove it."""

import http.client
import json
import os
import ssl
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import SplitResult, quote, urlsplit

from runyard.core.durable_files import replace_file
from runyard.core.errors import InvalidArgument
from runyard_sdk.home import is_of_home

CA_FILE = "service-ca.pem"
_BLOCK_BYTES = 1 << 20
_PLAIN = "".join(map(chr, range(0x21, 0x7F)))


def api_path(path: str) -> str:
    """Path of a route, percent-encoded where needed: run ids may have letters of any language."""
    is_plain = path.isascii() and path.isprintable() and " " not in path
    return f"/api/v1{path if is_plain else quote(path, safe=_PLAIN)}"


class ServiceAddress(NamedTuple):
    """Address of a service. `ca` holds PEM certificates, or the path of a PEM file, trusted besides the system's."""

    url: str
    ca: str = ""

    def connection(self, timeout_seconds: float) -> http.client.HTTPConnection:
        """A connection that is opened by its first request, which may raise OSError.

        Raises InvalidArgument for an invalid address, or certificates that cannot be read.
        """
        parts = _parsed(self.url)
        host = parts.hostname or ""
        if parts.scheme == "http":
            return http.client.HTTPConnection(host, parts.port, timeout_seconds, blocksize=_BLOCK_BYTES)
        trust = _trusting(self.ca, os.path.getmtime(self.ca) if _is_path(self.ca) and os.path.isfile(self.ca) else 0.0)
        return http.client.HTTPSConnection(
            host, parts.port, timeout=timeout_seconds, context=trust, blocksize=_BLOCK_BYTES
        )


def service_address(home: Path) -> ServiceAddress:
    """Current address in the home's service.json. Raises OSError or ValueError if it is missing, invalid or copied from
    another home."""
    found = json.loads((home / "service.json").read_bytes())
    try:
        if not is_of_home(found, str(home)):
            raise ValueError(f"service.json of {home} was copied from another home")
        return ServiceAddress(str(found["url"]), str(found.get("ca") or ""))
    except (KeyError, TypeError, AttributeError) as problem:
        raise ValueError(f"service.json names no service: {problem}") from problem


def certificates_file(home: Path) -> Path | None:
    """File for a script's RUNYARD_CA; None if the system's certificates are enough. While the service is down, the last
    known file."""
    path = home / CA_FILE
    try:
        ca = service_address(home).ca
    except (OSError, ValueError):
        return path if path.is_file() else None
    if not ca or _is_path(ca):
        return Path(ca) if ca else None
    if not path.is_file() or path.read_text() != ca:
        # Scripts read it, and a container's user may be another.
        replace_file(path, ca.encode(), mode=0o644)
    return path


def _parsed(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        is_right = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_right = False
    if not is_right:
        raise InvalidArgument(f"{url!r} is no address of a service.", hint="One looks like https://train.example:8443.")
    return parts


def _is_path(ca: str) -> bool:
    return os.path.isabs(ca) and "\n" not in ca


@lru_cache(maxsize=8)  # the system's certificates take 10 ms to read
def _trusting(ca: str, modified: float) -> ssl.SSLContext:
    """TLS context that trusts `ca`. `modified` is part of the cache key: a replaced file is read again."""
    context = ssl.create_default_context()
    # The service's certificate may be trusted directly, without its issuer. Newer Pythons check certificates more
    # strictly; all Python versions must accept the same ones.
    context.verify_flags = (context.verify_flags | ssl.VERIFY_X509_PARTIAL_CHAIN) & ~ssl.VERIFY_X509_STRICT
    try:
        if ca:
            context.load_verify_locations(**{"cafile" if _is_path(ca) else "cadata": ca})
    except (OSError, ValueError) as problem:
        named = f"in {ca}" if _is_path(ca) else "for the service"
        raise InvalidArgument(
            f"The certificates to trust {named} cannot be used: {problem}.", hint="They must be in PEM form."
        ) from problem
    return context
