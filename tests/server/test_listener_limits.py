"""Clients that are slow, silent or too much, on the port of this machine and on that for others."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from runyard.server.http.listener import ConnectionLimits
from runyard.server.http.tls import server_context
from tests.open_service import answering
from tests.servers.certificates import make_certificate

Connect = Callable[[], socket.socket]

# Short ones, so that nothing here waits long.
LIMITS = ConnectionLimits(head_seconds=0.3, silence_seconds=0.4, kept_seconds=1, head_bytes=4096, connections=8)
GIVEN_UP = threading.Event()


@pytest.fixture(params=["loopback", "plain", "encrypted"])
def connect(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Connect]:
    """Connects to a listener with these limits."""
    if request.param != "encrypted":
        with answering(None, LIMITS, _app, is_outside=request.param == "plain") as port:
            yield lambda: socket.create_connection(("127.0.0.1", port), timeout=10)
        return
    made = make_certificate(tmp_path)
    trust = ssl.create_default_context(cafile=made.authority)
    with answering(server_context(made.chain, made.key), LIMITS, _app) as port:
        yield lambda: trust.wrap_socket(socket.create_connection(("127.0.0.1", port), 10), server_hostname="127.0.0.1")


def test_a_connection_that_asks_nothing_is_ended(connect):
    with connect() as silent:
        assert _all(silent) == b""


def test_a_head_that_never_ends_is_not_waited_for(connect):
    with connect() as slow:
        slow.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n")
        assert _all(slow) == b""


def test_a_second_head_that_never_ends_is_not_waited_for_either(connect):
    with connect() as slow:
        slow.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n")
        assert _all(slow).count(b" 200 ") == 1


def test_a_huge_head_is_refused(connect):
    with connect() as huge:
        huge.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 10_000)
        assert b" 431 " in _all(huge)


def test_many_small_headers_are_a_huge_head_too(connect):
    with connect() as huge:
        huge.sendall(b"GET / HTTP/1.1\r\n")
        lines = b"".join(b"X%d: y\r\n" % number for number in range(1_000_000))
        with pytest.raises((ConnectionError, ssl.SSLError)):
            _send_again_and_again(huge, lines)


def test_a_body_that_stops_coming_is_given_up(connect):
    with connect() as slow:
        slow.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nsome")
        assert b"200" not in _all(slow)


def test_the_body_of_an_answered_request_cannot_trickle_on_for_ever(connect):
    with connect() as slow:
        slow.sendall(b"POST /unread HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")
        assert b"200" in slow.recv(4096)
        slow.settimeout(0.05)  # between one byte and the next
        with pytest.raises((ConnectionError, ssl.SSLError)):
            _trickle(slow)


def test_an_answer_that_is_not_taken_is_given_up(connect):
    with connect() as idle:
        idle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        idle.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        assert GIVEN_UP.wait(10)


def test_an_idle_connection_is_kept_for_a_while_and_then_ended(connect):
    with connect() as kept:
        kept.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"200" in kept.recv(4096)
        kept.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"200" in _all(kept)


def test_requests_sent_at_once_are_all_answered(connect):
    with connect() as many:
        many.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 20)
        assert _all(many).count(b"200 OK") == 20


def test_a_handshake_that_does_not_come_is_not_waited_for(tmp_path):
    made = make_certificate(tmp_path)
    with (
        answering(server_context(made.chain, made.key), replace(LIMITS, handshake_seconds=0.3), _app) as port,
        socket.create_connection(("127.0.0.1", port), timeout=10) as silent,
    ):
        assert _all(silent) == b""


def test_one_address_has_a_share_of_the_connections_and_no_more(connect):
    with connect() as first, connect() as second, connect() as third:
        assert b" 503 " in _all(third)
        assert _all(first) == _all(second) == b""
    with connect() as later:
        later.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert b"200" in _all(later)


async def _app(scope, receive, send):
    """Takes a whole body, but not that of /unread, and answers; /large without an end, until the connection is gone."""
    while scope["path"] != "/unread" and (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": []})
    if scope["path"] == "/large":
        GIVEN_UP.clear()
        gone = asyncio.ensure_future(receive())
        while not gone.done():
            await send({"type": "http.response.body", "body": bytes(1 << 20), "more_body": True})
            await asyncio.sleep(0)
        GIVEN_UP.set()
    await send({"type": "http.response.body", "body": b"done"})


def _all(connection: socket.socket) -> bytes:
    """Everything until the other side ends the connection."""
    came = bytearray()
    try:
        while piece := connection.recv(1 << 16):
            came += piece
    except (ConnectionError, ssl.SSLError):
        pass
    return bytes(came)


def _send_again_and_again(connection: socket.socket, data: bytes) -> None:
    """Much more than the kernel holds between two ends."""
    for _ in range(1000):
        connection.sendall(data)


def _trickle(slow):
    for _ in range(200):
        slow.sendall(b"x")
        with suppress(TimeoutError):
            if not slow.recv(4096):
                raise ConnectionResetError
