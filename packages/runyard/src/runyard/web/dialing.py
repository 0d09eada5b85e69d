import contextlib
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path

from runyard.errors import AccessDenied, DataFailed
from runyard.model.data import NetworkRules
from runyard.web.addresses import Address
from runyard.web.connections import Connection, set_silence
from runyard.web.guard import Target, check_proxied, proxy_targets, targets_of
from runyard.web.proxies import Proxies, Proxy
from runyard.web.troubles import Broken

LEAST_SECONDS_AN_ADDRESS = 0.05
_CERTIFICATES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


class Dialer:
    """Makes connections, to allowed addresses alone; see guard.py."""

    def __init__(self, rules: NetworkRules) -> None:
        self._rules = rules
        self._proxies = Proxies(rules.variables)

    def proxy_of(self, address: Address) -> Proxy | None:
        return self._proxies.find(address)

    def dial(self, address: Address) -> Connection:
        proxy = self.proxy_of(address)
        if not proxy:
            return self._finish(self._connect(targets_of(address, self._rules)), address)
        check_proxied(address, self._rules)
        plain = self._connect(proxy_targets(proxy.host, proxy.port))
        if address.scheme == "https":
            self._tunnel(plain, address, proxy)
        return self._finish(plain, address)

    def _connect(self, targets: list[Target]) -> socket.socket:
        deadline = time.monotonic() + self._rules.silence_seconds
        trouble = OSError()
        for number, (family, place) in enumerate(targets):
            plain = socket.socket(family, socket.SOCK_STREAM)
            share = (deadline - time.monotonic()) / (len(targets) - number)
            plain.settimeout(max(share, LEAST_SECONDS_AN_ADDRESS))
            try:
                plain.connect(place)
                plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return plain
            except OSError as error:
                plain.close()
                trouble = error
        raise Broken(f"it could not be connected to: {trouble.strerror or trouble}") from trouble

    def _tunnel(self, plain: socket.socket, address: Address, proxy: Proxy) -> None:
        place = f"[{address.host}]" if ":" in address.host else address.host
        place = f"{place}:{address.port}"
        login = f"Proxy-Authorization: {proxy.authorization}\r\n" if proxy.authorization else ""
        set_silence(plain, self._rules.silence_seconds)
        tunnel = Connection(plain, self._rules.silence_seconds, is_secure=False)
        with _closing_on_error(plain):
            head = tunnel.ask(f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n{login}\r\n".encode("ascii"))
            if head.status in (401, 403, 407):
                raise proxy_refuses(address, proxy, head.status)
            if not 200 <= head.status < 300 or tunnel.buffered:
                raise Broken(f"{proxy.shown} answers {head.status}")

    def _finish(self, plain: socket.socket, address: Address) -> Connection:
        silence = self._rules.silence_seconds
        if address.scheme == "http":
            set_silence(plain, silence)
            return Connection(plain, silence, is_secure=False)
        plain.settimeout(silence)
        with _closing_on_error(plain):
            try:
                # Else a connection that is cut would look like the end of a body.
                secure = self._trust.wrap_socket(plain, server_hostname=address.host, suppress_ragged_eofs=False)
            except ssl.SSLCertVerificationError as error:
                raise DataFailed(
                    f"{address.shown} could not be read: its certificate is not trusted ({error.verify_message}).",
                    hint="Set SSL_CERT_FILE to the certificates to trust.",
                ) from error
            except OSError as error:
                raise Broken(f"no secure connection could be made: {error}") from error
        return Connection(secure, silence, is_secure=True)

    @cached_property
    def _trust(self) -> ssl.SSLContext:
        return _trusting(self._rules.variables)


def proxy_refuses(address: Address, proxy: Proxy, status: int) -> AccessDenied:
    return AccessDenied(
        f"{address.shown} could not be read: {proxy.shown} answers {status}.",
        hint=f"Check the user name and password in {address.scheme}_proxy.",
    )


@contextlib.contextmanager
def _closing_on_error(plain: socket.socket) -> Iterator[None]:
    try:
        yield
    except BaseException:
        plain.close()
        raise


def _trusting(variables: Mapping[str, str]) -> ssl.SSLContext:
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
