"""Requests that one worker has, and how many more it may get."""

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Protocol

from runyard.serving.gateway.dispatch.request import ScoringRequest
from runyard.serving.workers.frames import WorkerAnswer, WorkerRequest
from runyard.serving.workers.link import WorkerFacts

MOST_IN_A_FRAME = 64
_FRAME_SECONDS = 0.005
"""Target time for one frame: long enough to make sending cheap, too short to starve another worker."""
_DECAY = 0.1


class Link(Protocol):
    """What a dispatcher needs of a WorkerLink."""

    requests_at_once: int
    facts: WorkerFacts | None
    answered: Callable[[list[WorkerAnswer]], None]
    lost: Callable[[str], None]
    is_open: bool

    def send(self, requests: Sequence[WorkerRequest]) -> bool: ...
    def report_hung(self, why: str) -> None: ...


class WorkerQueue:
    """Requests that were sent to one worker and are not answered yet.

    A request counts as started as docs/wire.md says: with its frame in a batching worker, at once in a worker with
    threads, else when the one before it is answered.
    """

    def __init__(self, link: Link) -> None:
        assert link.facts is not None, "a link joins once its worker is ready"
        self.link, self.facts = link, link.facts
        self.in_work: dict[int, ScoringRequest] = {}
        self.drained: asyncio.Future[None] | None = None
        """Set once the worker gets no new requests; done when it has answered all."""
        self.is_reported_hung = False
        self.timed_out = 0
        """Number of requests in work that timed out."""
        self._at_once = max(1, link.requests_at_once)
        self._frames = 0
        self._typical_seconds = _FRAME_SECONDS

    @property
    def slots(self) -> int:
        return self._at_once

    @property
    def typical_seconds(self) -> float:
        return self._typical_seconds

    @property
    def used(self) -> int:
        """Number of slots in use."""
        if self._at_once == 1:
            return 1 if self.in_work else 0
        return self._frames if self.facts.batches else len(self.in_work)

    def capacity(self) -> int:
        """How many requests it may get in one frame now."""
        if self.used >= self._at_once or self.drained or self.is_reported_hung or not self.link.is_open:
            return 0
        if self.facts.batches:
            return MOST_IN_A_FRAME
        if self._at_once > 1:
            return 0 if self.timed_out else self._at_once - len(self.in_work)
        return max(1, min(MOST_IN_A_FRAME, int(_FRAME_SECONDS / self._typical_seconds)))

    def send(self, requests: list[ScoringRequest], now: float) -> bool:
        """Send one frame. Returns False when the worker is gone; then none of them has reached it."""
        wants_heads = self.facts.wants_heads
        sent = [
            WorkerRequest(request.id, b"" if request.is_plain and not wants_heads else request.head(), request.body)
            for request in requests
        ]
        if not self.link.send(sent):
            return False
        frame = [len(requests)]
        begins_all = self.facts.batches or self._at_once > 1
        for request in requests:
            request.frame, request.begun_at = frame, now if begins_all else 0.0
            self.in_work[request.id] = request
        self._frames += 1
        if not begins_all:
            requests[0].begun_at = now
        return True

    def take(self, answer: WorkerAnswer, now: float) -> ScoringRequest | None:
        """Remove and return the request that this answers; None for an unknown id."""
        request = self.in_work.pop(answer.id, None)
        if request is None:
            return None
        self.timed_out -= request.is_timed_out
        seconds = answer.microseconds / 1e6
        typical = self._typical_seconds
        self._typical_seconds = seconds + 1e-6 if seconds > typical else typical + (seconds - typical) * _DECAY
        frame = request.frame
        if frame is not None:
            frame[0] -= 1
            self._frames -= not frame[0]
        if self.in_work and self._at_once == 1:
            following = next(iter(self.in_work.values()))
            following.begun_at = following.begun_at or now
        return request

    def clear(self) -> list[ScoringRequest]:
        """Remove and return all requests in work, oldest first."""
        held = list(self.in_work.values())
        self.in_work.clear()
        self._frames = self.timed_out = 0
        return held

    def time_out(self, begun_before: float) -> list[ScoringRequest]:
        """Mark requests that started at that time or earlier, and return each once. They stay in work: the worker has
        not answered them."""
        late = [
            request
            for request in self.in_work.values()
            if request.begun_at and request.begun_at <= begun_before and not request.is_timed_out
        ]
        for request in late:
            request.is_timed_out = True
        self.timed_out += len(late)
        return late

    def is_stuck(self) -> bool:
        """Whether all that it works on has timed out."""
        return bool(self.timed_out) and all(
            request.is_timed_out for request in self.in_work.values() if request.begun_at
        )

    def earliest_begin(self) -> float:
        """Earliest start of the requests that have not timed out; inf for none."""
        begun = (request.begun_at for request in self.in_work.values() if not request.is_timed_out)
        return min(filter(None, begun), default=math.inf)
