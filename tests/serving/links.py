"""A worker's link and requests that a test holds in its hands."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import uvloop

from runyard.serving.gateway.dispatch.request import Refusal, ScoringRequest
from runyard.serving.workers.frames import WorkerAnswer, WorkerRequest
from runyard.serving.workers.link import WorkerFacts


def in_loop(test: Coroutine[Any, Any, None]) -> None:
    async def within_seconds() -> None:
        async with asyncio.timeout(20):
            await test

    uvloop.run(within_seconds())


class HandLink:
    """Keeps the frames that it was sent; the test answers them."""

    def __init__(self, *, batches: bool = False, wants_heads: bool = False, requests_at_once: int = 1) -> None:
        self.facts: WorkerFacts | None = WorkerFacts(pid=1, batches=batches, wants_heads=wants_heads)
        self.requests_at_once = requests_at_once
        self.answered: Callable[[list[WorkerAnswer]], None]
        self.lost: Callable[[str], None]
        self.is_open = True
        self.frames: list[list[WorkerRequest]] = []
        self.hung: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._sent = asyncio.Event()

    def send(self, requests: Sequence[WorkerRequest]) -> bool:
        if self.is_open:
            self.frames.append(list(requests))
            self._sent.set()
        return self.is_open

    def report_hung(self, why: str) -> None:
        self.hung.set_result(why)

    def end(self, cause: str) -> None:
        self.is_open = False
        self.lost(cause)

    async def next_frame(self) -> list[WorkerRequest]:
        """The oldest frame that was not handed out yet."""
        while not self.frames:
            self._sent.clear()
            await self._sent.wait()
        return self.frames.pop(0)

    def answer(self, *requests: WorkerRequest, microseconds: int = 10) -> None:
        self.answered([WorkerAnswer(request.id, 200, microseconds, b"", request.body) for request in requests])


class HandRequest(ScoringRequest):
    """`outcome` becomes the body of the answer, or the refusal."""

    def __init__(self, body: bytes = b"1", *, is_plain: bool = True) -> None:
        super().__init__(body, is_plain=is_plain)
        self.outcome: asyncio.Future[bytes | Refusal] = asyncio.get_running_loop().create_future()

    def head(self) -> bytes:
        return b'{"method": "GET"}'

    def answered(self, answer: WorkerAnswer) -> None:
        self.outcome.set_result(answer.body)

    def refused(self, refusal: Refusal) -> None:
        self.outcome.set_result(refusal)

    async def refusal(self) -> Refusal:
        outcome = await self.outcome
        assert isinstance(outcome, Refusal)
        return outcome
