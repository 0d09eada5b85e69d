"""Whatever comes, in whatever pieces, is answered in step or refused."""

import asyncio
import itertools
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from runyard.serving.gateway.dispatch import Dispatcher
from runyard.serving.gateway.http.connection import HttpConnection
from runyard.serving.gateway.http.connection_set import ClientLimits
from runyard.serving.gateway.http.port_state import PortState
from runyard.serving.workers.frames import WorkerAnswer, WorkerRequest
from tests.serving.front.raw_client import request
from tests.serving.front.serving import a_spec
from tests.serving.links import HandLink, in_loop

CONVERSATION = (
    request(body=b"one")
    + request("GET", "/score?a=1")
    + request(Transfer_Encoding="chunked")
    + b"2\r\ntw\r\n1\r\no\r\n0\r\n\r\n"
    + request(path="/nothing", body=b"?")
    + request("HEAD", "/")
    + request(body=b"three", Expect="100-continue")
    + request(body=b"four", Connection="Upgrade", Upgrade="h2c")
    + request(body=b"five", Connection="close")
    + request(body=b"never")
)
PIECES = [
    b"POST /score HTTP/1.1\r\n", b"GET / HTTP/1.1\r\n", b"Host: localhost\r\n", b"Host: x\r\n", b"\r\n", b"\r\n\r\n",
    b"Content-Length: 5\r\n", b"Content-Length:\r\n", b"Content-Length: 9999999999\r\n", b"hello", b"\x00", b"\xff",
    b"Transfer-Encoding: chunked\r\n", b"5\r\nhello\r\n", b"0\r\n\r\n", b"Expect: 100-continue\r\n", b"Expect: x\r\n",
    b"Connection: close\r\n", b"Connection: Upgrade\r\nUpgrade: h2c\r\n", b"Content-Encoding: gzip\r\n",
    b"PRI * HTTP/2.0\r\n", b"POST /nothing HTTP/1.1\r\nHost: localhost\r\n",
    b"OPTIONS * HTTP/1.1\r\n", b"HEAD /score?a=%zz HTTP/1.0\r\n", b"CONNECT a:1 HTTP/1.1\r\n", b"GET ? HTTP/1.1\r\n",
    b"GET http:///[ HTTP/1.1\r\n", b"Origin: null\r\n", b"x-ms-request-id: \xe9\r\n", b"Authorization: Bearer\r\n",
]  # fmt: skip


class PaperTransport(asyncio.Transport):
    """Writes down what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_reading = True
        self._is_closed = False

    def write(self, data: bytes) -> None:  # type: ignore[override]
        assert not self._is_closed
        self.written += data

    def close(self) -> None:
        self._is_closed = True

    abort = close

    def is_closing(self) -> bool:
        return self._is_closed

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True


class EchoLink(HandLink):
    """Answers at once, in the next turn of the loop."""

    def send(self, requests: list[WorkerRequest]) -> bool:  # type: ignore[override]
        answers = [WorkerAnswer(one.id, 200, 1, b"", one.body or b"-") for one in requests]
        asyncio.get_running_loop().call_soon(self.answered, answers)
        return True


async def heard(pieces: list[bytes]) -> bytes:
    """What is answered, without what differs every time. All bodies are given back at the end."""
    dispatcher, transport = Dispatcher(a_spec().limits), PaperTransport()
    link = EchoLink()
    link.facts = link.facts and type(link.facts)(pid=1, methods=("GET", "POST"))
    dispatcher.join(link)
    connection = HttpConnection(PortState(a_spec(), dispatcher, print, ClientLimits()))
    connection.connection_made(transport)
    for piece in pieces:
        if not transport.is_closing():
            connection.data_received(piece)
        await asyncio.sleep(0)
    for _ in range(60):
        await asyncio.sleep(0)
    connection.connection_lost(None)
    assert dispatcher.request_budget.held == 0
    assert dispatcher.depth == 0
    return re.sub(rb"(Date|x-ms-request-id|x-ms-run-fn-exec-ms): [^\r]*", rb"\1", transport.written)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(places), len(data)]
    return [data[begin:end] for begin, end in itertools.pairwise(edges) if end > begin]


def statuses(answer: bytes) -> list[int]:
    return [int(found) for found in re.findall(rb"HTTP/1\.1 (\d+) ", answer)]


@settings(max_examples=60, deadline=None)
@given(places=st.lists(st.integers(1, len(CONVERSATION) - 1), max_size=40, unique=True))
def test_how_a_conversation_is_cut_into_pieces_changes_nothing(places: list[int]) -> None:
    async def test() -> None:
        whole, pieces = await heard([CONVERSATION]), await heard(cut(CONVERSATION, places))
        without_invitation = [pieces.replace(b"HTTP/1.1 100 Continue\r\n\r\n", b"") for pieces in (whole, pieces)]
        assert without_invitation[0] == without_invitation[1]
        assert [status for status in statuses(pieces) if status != 100] == [200, 200, 200, 404, 200, 200, 200, 200]

    in_loop(test())


@settings(max_examples=150, deadline=None)
@given(pieces=st.lists(st.sampled_from(PIECES) | st.binary(max_size=20), max_size=25), joined=st.booleans())
def test_no_bytes_bring_the_gateway_down(pieces: list[bytes], joined: bool) -> None:
    async def test() -> None:
        answer = await heard([b"".join(pieces)] if joined else [piece for piece in pieces if piece])
        assert 500 not in statuses(answer)

    in_loop(test())
