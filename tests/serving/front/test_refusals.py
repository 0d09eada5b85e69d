"""Requests that no worker sees: each has its status and says why."""

import time
from collections.abc import Iterator

import pytest

from runyard.core.records.web_services import ServiceAuth, ServingLimits
from runyard.serving.gateway.http.connection_set import ClientLimits
from runyard.serving.service_tokens import sign_token
from tests.serving.front.raw_client import ask, connected, request
from tests.serving.front.serving import Front, a_spec, serving

KEYS = ServiceAuth(keys=("first-key", "second-key"))
SMALL_HEADS = ClientLimits(head_bytes=8 * 1024, head_fields=50)
SMALL = ServingLimits(request_bytes=1 << 20)


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    with serving(tmp_path_factory.mktemp("refusing"), spec=a_spec(limits=SMALL), limits=SMALL_HEADS) as front:
        yield front


@pytest.mark.parametrize("path", ["/scor", "/score/", "/../score", "/v1/models/x:predict", "/%00", "//", "/score/../x"])
def test_an_unknown_route_is_told_what_there_is(front: Front, path: str) -> None:
    reply = ask(front.port, path=path, body=b"1")
    assert reply.status == 404
    assert "POST /score scores" in reply.message


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/score", "GET, OPTIONS, POST"),
        ("DELETE", "/score", "GET, OPTIONS, POST"),
        ("POST", "/", "GET, HEAD, OPTIONS"),
    ],
)
def test_another_method_is_told_which_ones_there_are(front: Front, method: str, path: str, allowed: str) -> None:
    reply = ask(front.port, method, path, b"1")
    assert (reply.status, reply.fields["allow"]) == (405, allowed)
    assert method in reply.message


@pytest.mark.parametrize("host", ["localhost:80", "127.0.0.1:5", "[::1]:5000", "[::1]", "LOCALHOST", "localhost."])
def test_loopback_names_are_known(front: Front, host: str) -> None:
    assert ask(front.port, body=b"1", Host=host).status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "10.0.0.1", "[::2]", "127.0.0.1.evil.example"]
)
def test_another_name_is_misdirected(front: Front, host: str) -> None:
    reply = ask(front.port, body=b"1", Host=host)
    assert reply.status == 421
    assert "Host header" in reply.message


@pytest.mark.parametrize("host", ["", ":80", "localhost:x", "[::1", "[localhost]", "[::1]x"])
def test_no_name_at_all_is_a_bad_request(front: Front, host: str) -> None:
    assert ask(front.port, body=b"1", Host=host).status == 400


def test_two_names_are_a_bad_request(front: Front) -> None:
    with connected(front.port) as client:
        reply = client.ask(b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n")
    assert (reply.status, reply.message) == (400, "The request has more than one Host header.")


def test_names_of_the_operator_are_known(front: Front) -> None:
    front.reconfigure(a_spec(limits=SMALL, host_names=("score.example", "*.wild.example")))
    try:
        found = [
            ask(front.port, body=b"1", Host=host).status for host in ("Score.Example:99", "a.wild.example", "b.example")
        ]
    finally:
        front.reconfigure(a_spec(limits=SMALL))
    assert found == [200, 200, 421]


@pytest.mark.parametrize(
    "data",
    [
        b"GARBAGE\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: local\x00host\r\n\r\n",
        b"POST /score HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST /score HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
        b"POST /score HTTP/1.1\r\nHost: localhost\r\nContent-Length: -3\r\n\r\n",
        b"POST /score HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        b"POST /score HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_what_is_no_request_is_answered_400_and_left(front: Front, data: bytes) -> None:
    with connected(front.port) as client:
        reply = client.ask(data)
        assert (reply.status, reply.fields["connection"]) == (400, "close")
        assert "no HTTP/1.1 request" in reply.message
        assert client.is_closed()


def test_requests_before_the_broken_one_are_answered(front: Front) -> None:
    with connected(front.port) as client:
        client.send(request(body=b"good") + b"BROKEN\r\n\r\n" + request(body=b"never"))
        assert [client.read().status, client.read().status] == [200, 400]
        assert client.is_closed()


@pytest.mark.parametrize("line", [b"x" * 9000, b"A: b\r\n" * 60, b"A: " + b"y" * 500_000])
def test_a_huge_head_is_refused(front: Front, line: bytes) -> None:
    with connected(front.port) as client:
        assert client.ask(request("GET", "/")).status == 200
        client.send(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + line + b"\r\n\r\n")
        assert client.read().status == 431
        assert client.is_closed()


def test_a_head_without_end_is_refused(front: Front) -> None:
    with connected(front.port) as client:
        client.send(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 9000)
        assert client.read().status == 431


def test_a_body_that_is_announced_too_large_is_refused_before_it_comes(front: Front) -> None:
    with connected(front.port) as client:
        reply = client.ask(request(Content_Length=str(200 << 20)))
        assert (reply.status, reply.fields["connection"]) == (413, "close")
        assert str(1 << 20) in reply.message


def test_who_sends_200_mb_nevertheless_reads_why_not(front: Front) -> None:
    with connected(front.port) as client:
        client.send(request(Content_Length=str(200 << 20)))
        for _ in range(200):
            client.send(bytes(1 << 20))
        assert client.read().status == 413
        assert front.dispatcher.request_budget.held == 0


def test_who_asks_before_sending_too_much_is_told_no(front: Front) -> None:
    with connected(front.port) as client:
        assert client.ask(request(Expect="100-continue", Content_Length=str(2 << 20))).status == 413


def test_a_chunked_body_is_refused_once_it_is_too_large(front: Front) -> None:
    with connected(front.port) as client:
        client.send(request(Transfer_Encoding="chunked"))
        for _ in range(3):
            client.send(b"80000\r\n" + bytes(0x80000) + b"\r\n")
        assert client.read().status == 413
        assert front.dispatcher.request_budget.held == 0


def test_another_expectation_is_refused(front: Front) -> None:
    assert ask(front.port, body=b"1", Expect="the-moon").status == 417


def test_a_small_refused_body_keeps_its_connection(front: Front) -> None:
    with connected(front.port) as client:
        client.send(request(path="/nothing", body=b"x" * 1000) + request(body=b"good"))
        assert [client.read().status, client.read().json] == [404, "good"]


def test_without_its_key_nothing_is_answered_but_health(front: Front) -> None:
    front.reconfigure(a_spec(limits=SMALL, admission=KEYS))
    try:
        found = {
            "none": ask(front.port, body=b"1"),
            "wrong": ask(front.port, body=b"1", Authorization="Bearer wrong"),
            "scheme": ask(front.port, body=b"1", Authorization="Basic first-key"),
            "odd": ask(front.port, body=b"1", Authorization="Bearer \xe9\xff"),
            "route": ask(front.port, path="/nothing", body=b"1"),
            "swagger": ask(front.port, "GET", "/swagger.json"),
        }
        let_in = [
            ask(front.port, body=b"1", Authorization=f"{how} {key}")
            for how, key in (("Bearer", "first-key"), ("bearer", "second-key"))
        ]
        health = ask(front.port, "GET", "/")
    finally:
        front.reconfigure(a_spec(limits=SMALL))
    assert {name: reply.status for name, reply in found.items()} == dict.fromkeys(found, 401)
    assert all(reply.fields["www-authenticate"] == 'Bearer realm="my-service"' for reply in found.values())
    assert "Authorization: Bearer KEY" in found["none"].message
    assert "get_keys()" in found["wrong"].message
    assert [reply.status for reply in (*let_in, health)] == [200, 200, 200]


def test_a_key_that_was_replaced_is_refused_on_an_open_connection(front: Front) -> None:
    front.reconfigure(a_spec(limits=SMALL, admission=KEYS))
    try:
        with connected(front.port) as client:
            asked = request(body=b"1", Authorization="Bearer first-key")
            before = client.ask(asked).status
            front.reconfigure(a_spec(limits=SMALL, admission=ServiceAuth(keys=("new", "second-key"))))
            after = client.ask(asked).status
    finally:
        front.reconfigure(a_spec(limits=SMALL))
    assert (before, after) == (200, 401)


def test_tokens_are_good_for_one_service_until_they_expire(front: Front) -> None:
    front.reconfigure(a_spec(limits=SMALL, admission=ServiceAuth(keys=("first-key",), token_secret="secret")))
    now = int(time.time())
    tokens = {
        "good": sign_token("secret", "svc1", now + 60),
        "expired": sign_token("secret", "svc1", now - 1),
        "other service": sign_token("secret", "svc2", now + 60),
        "other secret": sign_token("guess", "svc1", now + 60),
        "a key": "first-key",
        "garbage": "..",
    }
    try:
        found = {name: ask(front.port, body=b"1", Authorization=f"Bearer {token}") for name, token in tokens.items()}
    finally:
        front.reconfigure(a_spec(limits=SMALL))
    assert {name: reply.status for name, reply in found.items()} == {**dict.fromkeys(tokens, 401), "good": 200}
    assert "get_token()" in found["expired"].message


def test_waiting_bodies_hold_so_many_bytes_and_no_more(front: Front) -> None:
    front.dispatcher.request_budget.limit = 1000
    try:
        with connected(front.port) as slow:
            slow.send(request(Content_Length="900"))
            front.wait_until(lambda: front.dispatcher.request_budget.held == 900)
            reply = ask(front.port, body=b"x" * 200)
            assert (reply.status, reply.fields["retry-after"]) == (503, "1")
            assert slow.ask(b"y" * 900).status == 200
        assert ask(front.port, body=b"x" * 200).status == 200
    finally:
        front.dispatcher.request_budget.limit = SMALL.queued_bytes
    assert front.dispatcher.request_budget.held == 0


def test_no_refused_request_reached_the_script(front: Front) -> None:
    seen = len(front.seen())
    ask(front.port, path="/nothing", body=b"1")
    ask(front.port, body=b"1", Host="evil.example")
    assert len(front.seen()) == seen
