"""Operator's settings of web services: address, names, certificate. They listen on loopback by default."""

import re
from collections.abc import Mapping
from pathlib import Path

from runyard.core.errors import InvalidArgument
from runyard.core.listen_settings import ANY_ADDRESS, allows_plain, check_host, is_loopback
from runyard.core.records.web_services import ListenDefaults

HOST, NAMES, MAX_REQUEST_BYTES = (
    "RUNYARD_SERVICES_HOST",
    "RUNYARD_SERVICES_NAMES",
    "RUNYARD_SERVICES_MAX_REQUEST_BYTES",
)
TLS_CERT, TLS_KEY = "RUNYARD_SERVICES_TLS_CERT", "RUNYARD_SERVICES_TLS_KEY"
LARGEST_REQUEST_BYTES = 1 << 31
_NAME = re.compile(r"(\*\.)?[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9])?|[0-9a-f:]{2,39}")


def web_service_settings(variables: Mapping[str, str]) -> ListenDefaults:
    """Raises InvalidArgument, which names the variable with the invalid value."""
    host = check_host(variables.get(HOST, "").strip() or ListenDefaults.host, HOST)
    names = tuple(_checked_name(name.strip().lower()) for name in variables.get(NAMES, "").split(",") if name.strip())
    certificate, key = _certificate(variables)
    if not is_loopback(host) and not certificate and not allows_plain(variables):
        raise InvalidArgument(
            f"{HOST} is {host!r}: web services would be asked over the network unencrypted.",
            hint=f"Set {TLS_CERT} and {TLS_KEY}; or, where something else encrypts, RUNYARD_NO_TLS to 1.",
        )
    if host in ANY_ADDRESS and not any(not name.startswith("*") for name in names):
        raise InvalidArgument(
            f"{HOST} is {host!r}, and {NAMES} names nothing by which others reach this machine.",
            hint=f"Set {NAMES} to the machine's name or address; the first is shown in every scoring_uri.",
        )
    return ListenDefaults(host, names, certificate, key, _request_bytes(variables))


def _checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise InvalidArgument(
            f"{NAMES} holds {name!a}, which is no name of a machine.", hint="Part several by ',', as in models.example."
        )
    return name


def _certificate(variables: Mapping[str, str]) -> tuple[str, str]:
    given = [variables.get(name, "") for name in (TLS_CERT, TLS_KEY)]
    if not any(given):
        return "", ""
    if not all(given):
        missing, there = (TLS_KEY, TLS_CERT) if given[0] else (TLS_CERT, TLS_KEY)
        raise InvalidArgument(f"{there} is set and {missing} is not.", hint="TLS needs both files.")
    return _read(TLS_CERT, given[0]), _read(TLS_KEY, given[1])


def _read(name: str, path: str) -> str:
    try:
        text = Path(path).expanduser().read_text("ascii")
    except (OSError, ValueError):
        text = ""
    if "-----BEGIN " not in text:
        raise InvalidArgument(f"{name} names {path!r}, which is no readable file in PEM form.")
    return text


def _request_bytes(variables: Mapping[str, str]) -> int:
    text = variables.get(MAX_REQUEST_BYTES, "").strip() or str(ListenDefaults.request_bytes)
    if not (text.isascii() and text.isdecimal() and len(text) < 12 and 1 <= int(text) <= LARGEST_REQUEST_BYTES):
        raise InvalidArgument(
            f"{MAX_REQUEST_BYTES} must be a whole number from 1 to {LARGEST_REQUEST_BYTES}, got {text!a}."
        )
    return int(text)
