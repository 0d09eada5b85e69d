"""Address that a service listens on for other machines: `runyard serve --listen` and its variables."""

import errno
import ipaddress
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from runyard.core.errors import InvalidArgument

LISTEN, TLS_CERT, TLS_KEY, NO_TLS = "RUNYARD_LISTEN", "RUNYARD_TLS_CERT", "RUNYARD_TLS_KEY", "RUNYARD_NO_TLS"
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
ANY_ADDRESS = frozenset({"0.0.0.0", "::"})
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST_NAME = re.compile(rf"(?=.{{1,253}}$){_LABEL}(?:\.{_LABEL})*\.?")
_EXAMPLE = "Give HOST:PORT, as in 0.0.0.0:8443, train.example:8443 or [::]:8443."


@dataclass(frozen=True)
class ListenAddress:
    """Address in addition to loopback. Without a certificate the connection is not encrypted."""

    host: str
    port: int
    """0 means any free one."""
    certificate: Path | None = None
    key: Path | None = None

    @property
    def address(self) -> str:
        return f"{url_host(self.host)}:{self.port}"


def is_loopback(host: str) -> bool:
    """Whether only users of this machine can connect to the address."""
    return host in LOOPBACK_NAMES or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def check_host(host: str, setting: str) -> str:
    """Check a name or address to listen on. Raises InvalidArgument, which names the setting."""
    if not (_is_address(host) or _HOST_NAME.fullmatch(host)):
        raise InvalidArgument(f"{setting} is {host!a}, which is no name or address of a machine.")
    return host


def url_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def matches_name(host: str, name: str) -> bool:
    """Whether a certificate's name matches the host; '*' stands for one label."""
    host = host.lower().rstrip(".")
    return host == name or (name.startswith("*.") and fnmatchcase(host, name) and host.count(".") == name.count("."))


def listen_settings(variables: Mapping[str, str]) -> ListenAddress | None:
    """None for loopback only. Raises InvalidArgument, which names the option."""
    certificate, key = variables.get(TLS_CERT, ""), variables.get(TLS_KEY, "")
    text = variables.get(LISTEN, "").strip()
    if not text:
        if certificate or key:
            raise InvalidArgument("--tls-cert and --tls-key are for --listen, which is not given.", hint=_EXAMPLE)
        return None
    host, port = _parsed(text)
    if certificate or key:
        if not (certificate and key):
            missing, given = ("--tls-key", "--tls-cert") if certificate else ("--tls-cert", "--tls-key")
            raise InvalidArgument(f"{given} is given and {missing} is not.", hint="TLS needs both files.")
        if allows_plain(variables):
            raise InvalidArgument("--no-tls and a certificate are both given.", hint="Leave one of them out.")
        return ListenAddress(host, port, Path(certificate).absolute(), Path(key).absolute())
    if not is_loopback(host) and not allows_plain(variables):
        raise unencrypted_error(f"--listen {text}")
    return ListenAddress(host, port)


def allows_plain(variables: Mapping[str, str]) -> bool:
    value = variables.get(NO_TLS, "").strip() or "0"
    if value not in ("0", "1"):
        raise InvalidArgument(f"{NO_TLS} is {value!r}.", hint="Set it to 0 or 1.")
    return value == "1"


def unencrypted_error(option: str) -> InvalidArgument:
    return InvalidArgument(
        f"{option} would send tokens and data over the network unencrypted.",
        hint="Give --tls-cert and --tls-key; or, where something else encrypts, --no-tls.",
    )


def listen_error(problem: Exception) -> tuple[str, str]:
    """Reason and hint for an address that cannot be listened on."""
    number = getattr(problem, "errno", None)
    if number == errno.EADDRINUSE:
        return "that port is taken", "Choose another port."
    if number == errno.EADDRNOTAVAIL or isinstance(problem, socket.gaierror | UnicodeError):
        return "that is no address of this machine", "Name one of its addresses, or 0.0.0.0 for all of them."
    if number == errno.EACCES:
        return "this user may not use that port", "Choose one above 1023."
    if isinstance(problem, OverflowError):
        return "that is no port", "Choose one from 1 to 65535."
    return str(getattr(problem, "strerror", None) or problem), "Choose another address."


def _parsed(text: str) -> tuple[str, int]:
    bare, colon, digits = text.rpartition(":")
    host = bare[1:-1] if bare.startswith("[") and bare.endswith("]") else bare
    if not colon or not digits.isascii() or not digits.isdigit() or int(digits) > 65535:
        raise InvalidArgument(f"--listen {text!a} does not end in a port from 0 to 65535.", hint=_EXAMPLE)
    if not (_is_address(host) if host != bare or ":" in host else _is_address(host) or _HOST_NAME.fullmatch(host)):
        raise InvalidArgument(f"--listen {text!a} names no host or address of this machine.", hint=_EXAMPLE)
    if ":" in host and host == bare:
        raise InvalidArgument(f"--listen {text!a}: an IPv6 address stands in brackets.", hint=_EXAMPLE)
    return host, int(digits)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return "%" not in host
