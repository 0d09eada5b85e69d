"""The load generator of the serving rows: a round counts only when every answer came, and was right."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from bench.serving.load import Generator, Target, WrongAnswer, generator

SECONDS = 0.2
BODIES = [b'{"number": 1}', b'{"number": 2}', b'{"number": 3}']


class Echo(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.answer(self.rfile.read(int(self.headers["Content-Length"])))

    def answer(self, body: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing is logged."""


class AlwaysTheFirst(Echo):
    def answer(self, body: bytes, status: int = 200, **headers: str) -> None:
        super().answer(BODIES[0])


class Refuses(Echo):
    def answer(self, body: bytes, status: int = 200, **headers: str) -> None:
        super().answer(body, 503)


class Closes(Echo):
    def answer(self, body: bytes, status: int = 200, **headers: str) -> None:
        super().answer(body, Connection="close")


class HangsUp(Echo):
    def answer(self, body: bytes, status: int = 200, **headers: str) -> None:
        self.close_connection = True


@contextmanager
def served(handler: type[Echo]) -> Iterator[Target]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        serving = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        yield Target(server.server_port, "/score", BODIES, [json.loads(body) for body in BODIES])
        server.shutdown()
        serving.join()


@pytest.fixture(scope="module")
def load() -> Iterator[Generator]:
    with generator() as started:
        yield started


def test_answers_are_counted_and_held_against_their_requests(load: Generator) -> None:
    with served(Echo) as target:
        seen = load.send(target, 3, SECONDS)
    assert seen.answers > 3
    assert 0 < seen.p50 <= seen.p99 <= seen.longest
    assert not seen.failed


def test_an_answer_to_another_request_is_wrong(load: Generator) -> None:
    with served(AlwaysTheFirst) as target, pytest.raises(WrongAnswer, match="was answered"):
        load.send(target, 3, SECONDS)


def test_a_refused_request_has_failed(load: Generator) -> None:
    with served(Refuses) as target, pytest.raises(WrongAnswer, match="503"):
        load.send(target, 1, SECONDS)


def test_a_server_that_ends_each_connection_as_it_says_is_asked_over_new_ones(load: Generator) -> None:
    with served(Closes) as target:
        assert load.send(target, 2, SECONDS).answers > 2


def test_a_connection_that_ends_without_an_answer_has_failed(load: Generator) -> None:
    with served(HangsUp) as target, pytest.raises(WrongAnswer, match="ended before the answer"):
        load.send(target, 1, SECONDS)


def test_nobody_at_the_port_has_failed(load: Generator) -> None:
    with served(Echo) as target:
        pass
    with pytest.raises(WrongAnswer, match="connect"):
        load.send(target, 1, SECONDS)
