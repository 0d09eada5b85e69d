import gc
import signal
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from runyard.server.http.server import HttpServer, listen
from tests.processes import thread_heaps
from tests.wire_client import WireClient

FEW = 10_000


class _Cycle:
    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def process_as_before() -> Iterator[None]:
    threshold = gc.get_threshold()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    gc.unfreeze()
    gc.set_threshold(*threshold)
    for number, handler in handlers.items():
        signal.signal(number, handler)


async def no_app(scope: Scope, receive: Receive, send: Send) -> None:
    raise AssertionError("nobody asks")


@pytest.mark.usefixtures("process_as_before")
def test_service_frees_garbage_before_it_is_much() -> None:
    server = HttpServer(listen("127.0.0.1", 0), idle_seconds=None)
    living: list[bool] = []

    def litter() -> None:
        first = weakref.ref(_Cycle())
        for _ in range(FEW):
            _Cycle()
        living.append(first() is not None)
        server.stop()

    server.run(no_app, is_busy=lambda: False, on_started=litter, on_stopping=lambda: None)
    assert living == [False]


def test_threads_of_service_share_one_heap(service: dict[str, Any], client: WireClient) -> None:
    client.get(f"{client.here}/experiments")
    assert thread_heaps(service["pid"]) == 0
