"""A worker as the gateway meets it: the frames of both sides agree, and a forked child does not keep it alive."""

import importlib.util
import os
import signal
import socket
import threading
from pathlib import Path
from types import ModuleType

from hypothesis import given
from hypothesis import strategies as st

from runyard.serving.workers import frames as of_gateway
from runyard_sdk.scoring import frames as of_worker

SDK_TESTS = Path(__file__).resolve().parents[2] / "packages" / "sdk" / "tests"
HEAD = b'{"method": "GET", "path": "/score", "query": "", "headers": []}'
FORKING = """
import os, signal

def init():
    global child
    child = os.fork()
    if not child:
        signal.pause()

def run(data):
    return child
"""


def sdk_test_module(name: str) -> ModuleType:
    """A module of the SDK's own tests, which are a package called `tests` too."""
    spec = importlib.util.spec_from_file_location(name, SDK_TESTS / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@given(st.lists(st.tuples(st.integers(0, 2**32 - 1), st.sampled_from([b"", HEAD]), st.binary(max_size=300))))
def test_a_worker_reads_the_requests_that_the_gateway_writes(requests: list[tuple[int, bytes, bytes]]) -> None:
    written = b"".join(of_gateway.encode_requests([of_gateway.WorkerRequest(*each) for each in requests]))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        writing = threading.Thread(target=ours.sendall, args=(written,))
        writing.start()
        kind, payload = of_worker.FrameReader(theirs).read()
        found = of_worker.decode_requests(payload)
        writing.join()
    assert kind == b"R"
    assert [(each.id, each.head is None, each.body) for each in found] == [
        (number, not head, body) for number, head, body in requests
    ]


HEADERS = st.one_of(st.none(), st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5)), min_size=1, max_size=3))


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2**32 - 1),
            st.tuples(st.integers(200, 599), HEADERS, st.binary(max_size=300)),
            st.integers(0, 2**40),
        ),
        min_size=1,
    )
)
def test_the_gateway_reads_the_answers_that_a_worker_writes(answered: list[tuple[int, tuple, int]]) -> None:
    ((kind, payload),) = of_gateway.FrameReader().feed(of_worker.encode_answers(answered))
    found = of_gateway.decode_answers(payload)
    assert kind == of_gateway.FrameKind.ANSWERS
    assert [(each.id, each.status, each.body) for each in found] == [
        (number, status, body) for number, (status, _, body), _ in answered
    ]
    assert [bool(each.head) for each in found] == [bool(headers) for _, (_, headers, _), _ in answered]


def test_a_child_of_the_script_does_not_hide_the_end_of_its_worker() -> None:
    with sdk_test_module("scoring_worker").Worker(FORKING) as worker:
        worker.ready()
        child = worker.ask(b"").json
        try:
            worker.process.kill()
            assert worker.socket.recv(1) == b""
        finally:
            os.kill(child, signal.SIGKILL)
