"""Network backend of httpcore: makes every connection, to allowed addresses only, and watches its speed."""

import contextlib
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

from httpcore import NetworkBackend, NetworkStream

from runyard.core.errors import DataFailed
from runyard.core.records.data import NetworkRules
from runyard.data.http.address_guard import SocketAddress, allowed_addresses, check_proxied, proxy_addresses
from runyard.data.http.addresses import Address
from runyard.data.http.proxies import Proxies, Proxy
from runyard.data.http.retries import TransientError

MAX_HEAD_BYTES = 64 * 1024
LEAST_BYTES_PER_SECOND = 1024
"""Least speed of a body over `silence_seconds`. A slower one fails: it would hold a thread forever."""
LEAST_SECONDS_AN_ADDRESS = 0.05


class StaleConnection(TransientError):
    """The server closed a kept connection before it sent any byte: the request can be sent again at once."""


class ServerSilent(TransientError):
    """The server sent nothing, or too little, for too long."""


class ThroughputWatch:
    """Checks that a transfer has at least LEAST_BYTES_PER_SECOND over every `silence_seconds` of waiting."""

    def __init__(self, silence_seconds: float) -> None:
        self._silence_seconds = silence_seconds
        self.renew()

    def renew(self) -> None:
        self._seconds, self._bytes = 0.0, 0

    def count_read(self, seconds: float, came: int) -> None:
        """Count a read. Raises ServerSilent if the transfer is too slow."""
        self._seconds += seconds
        self._bytes += came
        if self._seconds < self._silence_seconds:
            return
        if self._bytes < LEAST_BYTES_PER_SECOND * self._silence_seconds:
            raise ServerSilent(f"only {self._bytes} bytes came from the server in {self._seconds:.3g} seconds")
        self.renew()


class HttpStream(NetworkStream):
    """One connection. Every failure is a TransientError, also those that httpcore's own streams do not detect.

    Those are an endless head, a body that trickles, and a TLS connection that is cut. Timeouts come from the rules, not
    from the arguments.
    """

    def __init__(self, connected: socket.socket, address: Address, network: "GuardedNetwork") -> None:
        self._socket, self._address, self._network = connected, address, network
        self._silence_seconds = network.rules.silence_seconds
        self._pace = ThroughputWatch(self._silence_seconds)
        self._head: list[bytes] = []
        self._is_in_head, self._is_used, self._head_ends_at = False, False, 0.0
        self.body_bytes, self.last_bytes = 0, b""
        """Bytes received after the head: their number, and the last piece."""
        self.acknowledges_at_once = False
        """For pipelined responses (TCP_QUICKACK): a server may delay the end of one until the ACK, up to 40 ms."""

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if not buffer:
            return
        if not self._is_in_head:
            self._is_in_head, self._head = True, []
            self._head_ends_at = time.monotonic() + self._silence_seconds
        try:
            self._socket.sendall(buffer)
        except OSError as error:
            raise self._broken(error) from error

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self._is_in_head:
            return self._read_head(max_bytes)
        began = time.monotonic()
        data = self._receive(max_bytes)
        if 0 < len(data) < max_bytes:
            self._pace.count_read(time.monotonic() - began, len(data))
        self.body_bytes += len(data)
        self.last_bytes = data or self.last_bytes
        return data

    def end_head(self) -> None:
        """Switch to the body after the head of a response. Sets `body_bytes` to what came together with the head.
        Raises TransientError if the head was too long."""
        self._is_in_head, self._is_used = False, True
        self._pace.renew()
        came, self._head, end = b"".join(self._head), [], 0
        self.body_bytes, self.last_bytes = 0, came
        while (found := came.find(b"\r\n\r\n", end)) >= 0:
            is_interim, end = came[end + 9 : end + 10] == b"1", found + 4
            if end > MAX_HEAD_BYTES:
                raise _too_long_head()
            if not is_interim:
                self.body_bytes = len(came) - end
                return

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> "HttpStream":
        name = (server_hostname or self._address.host).strip("[]")
        self._socket.settimeout(self._silence_seconds)
        try:
            # suppress_ragged_eofs would make a cut connection look like the end of a body.
            secure = ssl_context.wrap_socket(self._socket, server_hostname=name, suppress_ragged_eofs=False)
        except ssl.SSLCertVerificationError as error:
            self.close()
            raise DataFailed(
                f"{self._address.shown} could not be read: its certificate is not trusted ({error.verify_message}).",
                hint="Set SSL_CERT_FILE to the certificates to trust.",
            ) from error
        except OSError as error:
            self.close()
            raise TransientError(f"no secure connection could be made: {error}") from error
        return HttpStream(secure, self._address, self._network)

    def get_extra_info(self, info: str) -> Any:
        """Only ssl_object. Not whether a kept connection is readable: that would cost a system call for each one at
        every request, and StaleConnection is raised when a closed one is used."""
        return self._socket if info == "ssl_object" and isinstance(self._socket, ssl.SSLSocket) else None

    def _read_head(self, max_bytes: int) -> bytes:
        if sum(map(len, self._head)) >= MAX_HEAD_BYTES:
            raise _too_long_head()
        if time.monotonic() > self._head_ends_at:
            raise ServerSilent(f"the server sent no whole answer for {self._silence_seconds:g} seconds")
        data = self._receive(max_bytes)
        if not data:
            raise self._unanswered("the server closed the connection without an answer")
        self._head.append(data)
        return data

    def _receive(self, max_bytes: int) -> bytes:
        try:
            if self.acknowledges_at_once:
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
            return self._socket.recv(max_bytes)
        except OSError as error:
            raise self._broken(error) from error

    def _broken(self, error: OSError) -> TransientError:
        if isinstance(error, TimeoutError | BlockingIOError):
            return ServerSilent(f"nothing came from the server for {self._silence_seconds:g} seconds")
        return self._unanswered(error.strerror or str(error) or type(error).__name__)

    def _unanswered(self, why: str) -> TransientError:
        return StaleConnection(why) if self._is_used and self._is_in_head and not self._head else TransientError(why)


class GuardedNetwork(NetworkBackend):
    """Makes connections, to allowed addresses only.

    httpcore passes only the host to connect to, which may be a proxy. So `set_address` is called before.
    """

    def __init__(self, rules: NetworkRules) -> None:
        self.rules = rules
        self._proxies = Proxies(rules.variables)
        self._thread = threading.local()

    @cached_property
    def trust(self) -> ssl.SSLContext:
        return ssl_context_from(self.rules)

    def proxy_of(self, address: Address) -> Proxy | None:
        return self._proxies.find(address)

    def set_address(self, address: Address) -> None:
        """Set the address that the next connections of this thread are for."""
        self._thread.address = address

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> HttpStream:
        address: Address = self._thread.address
        proxy = self.proxy_of(address)
        if proxy:
            check_proxied(address, self.rules)
        connected = self._connect(proxy_addresses(host, port) if proxy else allowed_addresses(address, self.rules))
        set_silence(connected, self.rules.silence_seconds)
        return HttpStream(connected, address, self)

    def connect(self, address: Address) -> HttpStream:
        """Connect to the host of the address without httpcore; with TLS for https."""
        self.set_address(address)
        stream = self.connect_tcp(address.host, address.port)
        return stream.start_tls(self.trust) if address.scheme == "https" else stream

    def _connect(self, targets: list[SocketAddress]) -> socket.socket:
        deadline = time.monotonic() + self.rules.silence_seconds
        failure = OSError()
        for number, (family, sockaddr) in enumerate(targets):
            plain = socket.socket(family, socket.SOCK_STREAM)
            share = (deadline - time.monotonic()) / (len(targets) - number)
            plain.settimeout(max(share, LEAST_SECONDS_AN_ADDRESS))
            try:
                plain.connect(sockaddr)
                plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return plain
            except OSError as error:
                plain.close()
                failure = error
        raise TransientError(f"it could not be connected to: {failure.strerror or failure}") from failure


def _too_long_head() -> TransientError:
    return TransientError(f"the server sends headers of more than {MAX_HEAD_BYTES // 1024} KiB")


def set_silence(plain: socket.socket, seconds: float) -> None:
    """Set the timeout in the kernel: settimeout() would cost a poll() before every call."""
    whole, part = divmod(max(seconds, 0.001), 1)
    limit = struct.pack("ll", int(whole), int(part * 1_000_000))
    plain.settimeout(None)
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)


def ssl_context_from(rules: NetworkRules) -> ssl.SSLContext:
    """TLS context that trusts the certificates that the variables name, else those of the system. Raises DataFailed."""
    name = rules.certificates_variable or "SSL_CERT_DIR"
    path = rules.variables.get(name) or None
    folder = path if path and Path(path).is_dir() else rules.variables.get("SSL_CERT_DIR") or None
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
