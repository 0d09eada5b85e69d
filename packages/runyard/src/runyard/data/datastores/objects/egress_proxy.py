"""Local proxy that keeps obstore from private addresses (SSRF).

obstore resolves host names itself and follows every redirect. Where private addresses are forbidden, its connections go
through this proxy in the same process, which checks each IP address when it connects.
"""

import contextlib
import hmac
import os
import secrets
import socket
import threading
from base64 import b64encode

from runyard.core.errors import RunyardError
from runyard.core.records.data import NetworkRules
from runyard.data.http.address_guard import allowed_addresses
from runyard.data.http.addresses import parse_address
from runyard.data.http.retries import TransientError

_LONGEST_HEAD = 1 << 14
_PIECE_BYTES = 1 << 18
_REFUSED = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_FAILED = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_CONNECTED = b"HTTP/1.1 200 Connected\r\n\r\n"


class EgressProxy:
    """CONNECT proxy on loopback, protected by a password. It carries https only."""

    def __init__(self, rules: NetworkRules) -> None:
        self._rules = rules
        self._password = secrets.token_urlsafe(32)
        self._login = b"Basic " + b64encode(f"runyard:{self._password}".encode())
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, name="egress-proxy", daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://runyard:{self._password}@127.0.0.1:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        """Stop accepting connections; open ones stay."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client = self._listener.accept()[0]
                threading.Thread(target=self._serve, args=(client,), name="egress-proxy", daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            client.settimeout(self._rules.silence_seconds)
            try:
                server = self._connect(_head(client))
            except RunyardError:
                client.sendall(_REFUSED)
            except (TransientError, OSError):
                client.sendall(_FAILED)
            else:
                with server:
                    client.sendall(_CONNECTED)
                    client.settimeout(None)
                    _relay(client, server)

    def _connect(self, head: bytes) -> socket.socket:
        request, *fields = head.split(b"\r\n")
        method, _, rest = request.partition(b" ")
        logins = [value.strip() for name, _, value in (field.partition(b":") for field in fields) if _is_login(name)]
        if method != b"CONNECT" or not any(hmac.compare_digest(login, self._login) for login in logins):
            raise RunyardError("Only CONNECT, and only with the password.")
        address = parse_address(f"https://{rest.partition(b' ')[0].decode('ascii', 'replace')}")
        failure = OSError("no address")
        for family, sockaddr in allowed_addresses(address, self._rules):
            server = socket.socket(family, socket.SOCK_STREAM)
            server.settimeout(self._rules.silence_seconds)
            try:
                server.connect(sockaddr)
                server.settimeout(None)
                return server
            except OSError as error:
                server.close()
                failure = error
        raise failure


_lock = threading.Lock()
_egress_proxies: dict[tuple[int, bool, float], EgressProxy] = {}


def egress_proxy_for(rules: NetworkRules) -> EgressProxy:
    """Return the proxy of this process for these rules. A forked child gets its own: threads do not survive a fork."""
    key = (os.getpid(), rules.allow_private, rules.silence_seconds)
    with _lock:
        if key not in _egress_proxies:
            _egress_proxies[key] = EgressProxy(rules)
        return _egress_proxies[key]


def _head(client: socket.socket) -> bytes:
    head = b""
    while b"\r\n\r\n" not in head:
        piece = client.recv(_LONGEST_HEAD)
        head += piece
        if not piece or len(head) > _LONGEST_HEAD:
            raise OSError("no request")
    return head


def _is_login(name: bytes) -> bool:
    return name.strip().lower() == b"proxy-authorization"


def _relay(client: socket.socket, server: socket.socket) -> None:
    answers = threading.Thread(target=_pump, args=(server, client), name="egress-proxy", daemon=True)
    answers.start()
    _pump(client, server)
    answers.join()


def _pump(source: socket.socket, target: socket.socket) -> None:
    buffer = memoryview(bytearray(_PIECE_BYTES))
    with contextlib.suppress(OSError):
        while count := source.recv_into(buffer):
            target.sendall(buffer[:count])
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
