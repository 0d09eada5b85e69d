"""Clients that send or take too slowly, leave, or are too many."""

import contextlib
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from runyard.core.records.web_services import ServingLimits
from runyard.serving.gateway.http.connection_set import ClientLimits
from tests.serving.front.raw_client import RawClient, ask, connected, request
from tests.serving.front.serving import Front, a_spec, serving

HASTY = ClientLimits(
    head_seconds=0.2, silence_seconds=0.2, body_seconds=0.4, kept_seconds=0.4, farewell_seconds=0.2, connections=8
)


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    with serving(tmp_path_factory.mktemp("hasty"), limits=HASTY) as front:
        yield front


def reading_slowly(front: Front) -> RawClient:
    opened = socket.socket()
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    opened.connect(("127.0.0.1", front.port))
    return RawClient(opened)


def test_a_head_that_does_not_come_is_given_up(front: Front) -> None:
    with connected(front.port) as client:
        reply = client.ask(b"POST /score HTTP/1.1\r\nHost: loc")
        assert (reply.status, reply.message) == (408, "The head of the request did not come in time.")
        assert client.is_closed()


def test_a_body_that_stops_coming_is_given_up(front: Front) -> None:
    with connected(front.port) as client:
        reply = client.ask(request(Content_Length="100") + b"some")
        assert (reply.status, reply.message) == (408, "The body of the request did not come in time.")
        assert client.is_closed()
    assert front.dispatcher.request_budget.held == 0


def test_a_body_that_trickles_is_given_up(front: Front) -> None:
    with connected(front.port) as client:
        client.send(request(Content_Length="1000000"))
        client.socket.settimeout(0.05)
        with pytest.raises(TimeoutError):
            client.socket.recv(1)
        while True:
            client.send(b"x")
            try:
                answer = client.socket.recv(10000)
                break
            except TimeoutError:
                continue
    assert answer.startswith(b"HTTP/1.1 408")


def test_a_silent_connection_is_closed(front: Front) -> None:
    with connected(front.port) as client:
        assert client.is_closed()


def test_a_kept_connection_is_closed_after_its_time(front: Front) -> None:
    with connected(front.port) as client:
        assert client.ask(request(body=b"1")).status == 200
        assert client.is_closed()


def test_a_slow_script_is_no_slow_client(front: Front, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    with connected(front.port) as client:
        client.send(request(body=json.dumps({"do": "wait", "until": str(flag)}).encode()))
        with connected(front.port) as other:
            assert other.is_closed(), "a whole time-out has passed"
        flag.touch()
        assert client.read().status == 200


def test_a_client_that_takes_no_answer_is_left(front: Front) -> None:
    client = reading_slowly(front)
    scored = front.metrics()["requests"].get("200", 0)
    client.send(request(body=b"z" * (16 << 20)))
    front.wait_until(lambda: front.dispatcher.metrics()["requests"].get("200", 0) > scored and front.connections == 0)
    assert len(client.read_rest()) < 16 << 20
    client.close()


def test_a_client_that_takes_its_answer_too_slowly_is_left(tmp_path: Path) -> None:
    """Each drop is progress, and yet it would hold its answer for hours."""
    with serving(tmp_path, limits=ClientLimits(body_seconds=0.3)) as front:
        client = reading_slowly(front)
        client.send(request(body=b"z" * (16 << 20)))
        front.wait_until(lambda: front.dispatcher.unsent.held > 0)
        assert client.socket.recv(2000).startswith(b"HTTP/1.1 200")
        front.wait_until(lambda: front.connections == 0)
        assert front.dispatcher.unsent.held == 0
        client.close()


def test_answers_that_nobody_takes_have_a_bound_and_small_ones_go_on(tmp_path: Path) -> None:
    with serving(tmp_path, spec=a_spec(limits=ServingLimits(queued_bytes=20 << 20))) as front:
        slow = reading_slowly(front)
        slow.send(request(body=b"z" * (16 << 20)))
        front.wait_until(lambda: front.dispatcher.unsent.held > 10 << 20)
        reply = ask(front.port, body=b"z" * (16 << 20))
        assert (reply.status, reply.fields["retry-after"]) == (503, "1")
        assert ask(front.port, body=b"small").status == 200
        slow.close()
        front.wait_until(lambda: front.dispatcher.unsent.held == 0)
        assert ask(front.port, body=b"z" * (16 << 20)).status == 200


def test_a_client_that_sends_more_than_it_takes_is_made_to_wait(front: Front) -> None:
    with connected(front.port) as client:
        client.socket.setblocking(False)
        sent, asked = 0, request("GET", "/swagger.json") * 100
        with contextlib.suppress(BlockingIOError):
            while sent < 64 << 20:
                sent += client.socket.send(asked)
        assert sent < 64 << 20


def test_one_connection_too_many_is_turned_away(front: Front) -> None:
    front.wait_until(lambda: not front.connections)
    opened = [socket.create_connection(("127.0.0.1", front.port)) for _ in range(8)]
    front.wait_until(lambda: front.connections == 8)
    with connected(front.port) as client:
        reply = client.read()
        assert (reply.status, reply.fields["retry-after"]) == (503, "1")
        assert "connections" in reply.message
        assert client.is_closed()
    for one in opened:
        one.close()
    front.wait_until(lambda: not front.connections)
    assert ask(front.port, body=b"1").status == 200


def test_who_leaves_before_its_turn_is_not_scored(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    with serving(tmp_path) as front, connected(front.port) as first:
        first.send(request(body=json.dumps({"do": "wait", "until": str(flag)}).encode()))
        front.wait_until(lambda: front.dispatcher.in_work == 1)
        with connected(front.port) as second:
            second.send(request(body=b"impatient"))
            front.wait_until(lambda: front.dispatcher.depth == 1)
        front.wait_until(lambda: front.dispatcher.depth == 0)
        flag.touch()
        assert first.read().status == 200
        assert ask(front.port, body=b"last").status == 200
        assert [text for text in front.seen() if not text.startswith("{")] == ["last"]
        assert front.metrics()["requests"]["499"] == 1
        assert front.dispatcher.request_budget.held == 0


def test_who_waits_too_long_for_a_worker_is_told_when_to_come_back(tmp_path: Path) -> None:
    limits = ServingLimits(queue_seconds=0.05, queued_requests=2)
    with serving(tmp_path, spec=a_spec(limits=limits), workers=0) as front:
        reply = ask(front.port, body=b"1")
        assert (reply.status, reply.fields["retry-after"]) == (503, "1")
        assert "0.05 seconds" in reply.message


def test_one_request_too_many_is_told_at_once(tmp_path: Path) -> None:
    limits = ServingLimits(queued_requests=1)
    with serving(tmp_path, spec=a_spec(limits=limits), workers=0) as front, connected(front.port) as waiting:
        waiting.send(request(body=b"1"))
        front.wait_until(lambda: front.dispatcher.depth == 1)
        reply = ask(front.port, body=b"2")
        assert reply.status == 503
        assert int(reply.fields["retry-after"]) >= 1
        front.add_worker()
        assert waiting.read().json == "1"
