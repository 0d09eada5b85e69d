"""One worker as its dispatcher sees it: what it has in work, and how much more it may get."""

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Protocol

from runyard.serving.dispatch.request import ScoringRequest
from runyard.serving.frames import WorkerAnswer, WorkerRequest
from runyard.serving.worker_link import WorkerFacts

MOST_IN_A_FRAME = 64
_FRAME_SECONDS = 0.005
"""A script works on a frame for about so long: enough to make the hop cheap, too short to starve another worker."""
_FORGETTING = 0.1


class Link(Protocol):
    """What a dispatcher needs of a WorkerLink."""

    requests_at_once: int
    facts: WorkerFacts | None
    answered: Callable[[list[WorkerAnswer]], None]
    lost: Callable[[str], None]
    is_open: bool

    def send(self, requests: Sequence[WorkerRequest]) -> bool: ...
    def say_hung(self, why: str) -> None: ...


class Lane:
    """Requests begin as docs/wire.md says: a whole frame of a batching worker, all of a worker with threads, else one
    after another."""

    def __init__(self, link: Link) -> None:
        assert link.facts is not None, "a link joins once its worker is ready"
        self.link, self.facts = link, link.facts
        self.in_work: dict[int, ScoringRequest] = {}
        self.drained: asyncio.Future[None] | None = None
        """Set when nothing new may go here."""
        self.is_condemned = False
        """Its worker was reported as hung."""
        self.timed_out = 0
        """Requests in work that were given up."""
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
        """Of its slots."""
        if self._at_once == 1:
            return 1 if self.in_work else 0
        return self._frames if self.facts.batches else len(self.in_work)

    def room(self) -> int:
        """How many requests it may get in one frame now."""
        if self.used >= self._at_once or self.drained or self.is_condemned or not self.link.is_open:
            return 0
        if self.facts.batches:
            return MOST_IN_A_FRAME
        if self._at_once > 1:
            return 0 if self.timed_out else self._at_once - len(self.in_work)
        return max(1, min(MOST_IN_A_FRAME, int(_FRAME_SECONDS / self._typical_seconds)))

    def send(self, requests: list[ScoringRequest], now: float) -> bool:
        """False when the worker is gone; then none of them has reached it."""
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
        """The request that this answers, which is off the lane now; None for one that nobody asked."""
        request = self.in_work.pop(answer.id, None)
        if request is None:
            return None
        self.timed_out -= request.is_timed_out
        seconds = answer.microseconds / 1e6
        typical = self._typical_seconds
        self._typical_seconds = seconds + 1e-6 if seconds > typical else typical + (seconds - typical) * _FORGETTING
        frame = request.frame
        if frame is not None:
            frame[0] -= 1
            self._frames -= not frame[0]
        if self.in_work and self._at_once == 1:
            following = next(iter(self.in_work.values()))
            following.begun_at = following.begun_at or now
        return request

    def clear(self) -> list[ScoringRequest]:
        """Everything that was in work, oldest first."""
        held = list(self.in_work.values())
        self.in_work.clear()
        self._frames = self.timed_out = 0
        return held

    def time_out(self, begun_before: float) -> list[ScoringRequest]:
        """Those that began at that time or earlier, each once. They stay in work: the worker has not answered them."""
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
        """Nothing that it works on is worth waiting for."""
        return bool(self.timed_out) and all(
            request.is_timed_out for request in self.in_work.values() if request.begun_at
        )

    def earliest_begin(self) -> float:
        """Of those that are still waited for; inf where there are none."""
        begun = (request.begun_at for request in self.in_work.values() if not request.is_timed_out)
        return min(filter(None, begun), default=math.inf)
