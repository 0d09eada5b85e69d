"""The queue of one web service in front of its workers."""

import asyncio
import math
import time
from collections import OrderedDict
from functools import partial
from typing import Any

from runyard.model.web_services import ServingLimits
from runyard.serving.dispatch.bell import DeadlineBell
from runyard.serving.dispatch.byte_room import ByteRoom
from runyard.serving.dispatch.lane import Lane, Link
from runyard.serving.dispatch.request import Refusal, ScoringRequest
from runyard.serving.dispatch.request_metrics import RequestMetrics
from runyard.serving.dispatch.usage import Usage
from runyard.serving.frames import WorkerAnswer
from runyard.serving.worker_link import WorkerFacts

_FRAME_BYTES = 8 << 20
"""A frame with more than one request holds no more."""
CLIENT_GONE = 499
"""Stands in metrics for a request whose client did not wait."""
_LONGEST_RETRY_SECONDS = 30


class Dispatcher:
    """Gives requests to workers, oldest first, and their answers back. All of it happens in the running loop.

    A free worker takes what is queued, up to a bound, in one frame: nothing waits for company, and what has come
    meanwhile goes together.
    """

    def __init__(self, limits: ServingLimits) -> None:
        self._loop = asyncio.get_running_loop()
        self._limits = limits
        self._lanes: dict[Link, Lane] = {}
        self._queue: OrderedDict[int, ScoringRequest] = OrderedDict()
        self._last_id = 0
        self._is_woken = False
        self._bell = DeadlineBell(self._loop, self._end_overdue)
        self._outage = ""
        self._closed_because = ""
        self._usage = Usage()
        self.room = ByteRoom(limits.queued_bytes)
        """For the bodies of all requests that are being read, queued or in work."""
        self.unsent = ByteRoom(limits.queued_bytes)
        """For answers that their clients have not taken yet."""
        self.requests = RequestMetrics()
        self.facts: WorkerFacts | None = None
        """Of the worker that joined last."""

    @property
    def depth(self) -> int:
        return len(self._queue)

    @property
    def in_work(self) -> int:
        return sum(len(lane.in_work) for lane in self._lanes.values())

    @property
    def is_served(self) -> bool:
        """Whether any worker is there."""
        return any(lane.link.is_open and not lane.is_condemned for lane in self._lanes.values())

    @property
    def utilization(self) -> float:
        """Used part of the workers' time since this was last read, from 0 to 1."""
        slots = sum(lane.slots for lane in self._lanes.values())
        return min(1.0, self._usage.read() / slots) if slots else 0.0

    def metrics(self) -> dict[str, Any]:
        return {**self.requests.summary(), "queued": self.depth, "in_work": self.in_work}

    def figures(self) -> dict[str, Any]:
        """For a scrape: requests by status and a histogram of seconds since the gateway started."""
        return {**self.requests.figures(), "queued": self.depth}

    def join(self, link: Link) -> None:
        """Requests may go to this worker, which is ready, from now on."""
        lane = Lane(link)
        link.answered = partial(self._answered, lane)
        link.lost = partial(self._lost, lane)
        self._lanes[link] = lane
        self.facts = lane.facts
        self._wake()

    def retire(self, link: Link) -> "asyncio.Future[None]":
        """Nothing new goes to this worker. Done once all that it has is answered, or it is lost."""
        lane = self._lanes.get(link)
        if lane is None:
            gone: asyncio.Future[None] = self._loop.create_future()
            gone.set_result(None)
            return gone
        if lane.drained is None:
            lane.drained = self._loop.create_future()
            self._let_go_if_drained(lane)
        return lane.drained

    def reconfigure(self, limits: ServingLimits) -> None:
        self._limits = limits
        self.room.limit = self.unsent.limit = limits.queued_bytes
        self._bell.look_now()

    def set_outage(self, problem: str | None) -> None:
        """With a problem: while no worker is there, requests are refused at once, with these words. Without one they
        wait for a worker."""
        self._outage = problem or ""
        if self._outage and not self.is_served:
            self._refuse_queued(Refusal(503, self._outage, self._retry_seconds()))

    def close(self, why: str) -> None:
        """Every request, queued now or coming later, is refused. What is in work is still answered."""
        self._closed_because = why
        self._refuse_queued(Refusal(503, why))

    def submit(self, request: ScoringRequest) -> None:
        refusal = self._refusal()
        if refusal is not None:
            request.is_over = True
            self.requests.count(refusal.status)
            request.refused(refusal)
            return
        request.queued_at = time.monotonic()
        self._last_id = number = (self._last_id + 1) & 0xFFFFFFFF
        request.id = number
        self._queue[number] = request
        self._wake()
        if not self._bell.is_set:
            self._bell.set_in(min(self._limits.queue_seconds, self._limits.scoring_seconds))

    def drop(self, request: ScoringRequest) -> None:
        """Its client has gone: it is not begun if it was not, and its answer goes nowhere."""
        request.is_over = True
        self._queue.pop(request.id, None)
        self.requests.count(CLIENT_GONE)

    def _refusal(self) -> Refusal | None:
        if self._closed_because:
            return Refusal(503, self._closed_because)
        if self._outage and not self.is_served:
            return Refusal(503, self._outage, self._retry_seconds())
        if len(self._queue) >= self._limits.queued_requests:
            return Refusal(
                503, f"{len(self._queue)} requests are waiting already. Send it again later.", self._retry_seconds()
            )
        return None

    def _retry_seconds(self) -> int:
        slots = sum(lane.slots for lane in self._lanes.values()) or 1
        typical = max((lane.typical_seconds for lane in self._lanes.values()), default=1.0)
        return max(1, min(_LONGEST_RETRY_SECONDS, math.ceil(len(self._queue) * typical / slots)))

    def _wake(self) -> None:
        # A turn of the loop later, everything that has come in this turn goes together.
        if not self._is_woken:
            self._is_woken = True
            self._loop.call_soon(self._dispatch)

    def _dispatch(self) -> None:
        self._is_woken = False
        while self._queue:
            free = [(room, lane) for lane in self._lanes.values() if (room := lane.room())]
            if not free:
                return
            room, lane = max(free, key=_by_room) if len(free) > 1 else free[0]
            share = -(-len(self._queue) // len(free))
            self._send(lane, min(room, share))

    def _send(self, lane: Lane, count: int) -> None:
        taken: list[ScoringRequest] = []
        queue, size = self._queue, 0
        while queue and len(taken) < count:
            _, request = queue.popitem(last=False)
            size += len(request.body)
            if taken and size > _FRAME_BYTES:
                self._put_back([request])
                break
            taken.append(request)
        now, used = time.monotonic(), lane.used
        if lane.send(taken, now):
            self._usage.add(lane.used - used, now)
        else:
            self._put_back(taken)

    def _put_back(self, requests: list[ScoringRequest]) -> None:
        for request in reversed(requests):
            self._queue[request.id] = request
            self._queue.move_to_end(request.id, last=False)

    def _answered(self, lane: Lane, answers: list[WorkerAnswer]) -> None:
        now, used = time.monotonic(), lane.used
        for answer in answers:
            request = lane.take(answer, now)
            if request is not None and not request.is_over:
                request.is_over = True
                self.requests.scored(answer.status, now - request.queued_at)
                request.answered(answer)
        self._usage.add(lane.used - used, now)
        if lane.drained is not None:
            self._let_go_if_drained(lane)
        if lane.timed_out:
            self._condemn_if_stuck(lane)
        if self._queue:
            self._wake()

    def _lost(self, lane: Lane, cause: str) -> None:
        self._lanes.pop(lane.link, None)
        self._usage.add(-lane.used, time.monotonic())
        unbegun = []
        for request in lane.clear():
            if request.is_over:
                continue
            if request.begun_at or request.was_retried:
                self._refuse(request, Refusal(502, f"The worker was lost while it had this request. {cause}"))
            else:
                request.was_retried = True
                unbegun.append(request)
        self._put_back(unbegun)
        if lane.drained is not None and not lane.drained.done():
            lane.drained.set_result(None)
        if self._outage:
            self.set_outage(self._outage)
        self._wake()

    def _let_go_if_drained(self, lane: Lane) -> None:
        if lane.drained is not None and not lane.in_work:
            self._lanes.pop(lane.link, None)
            if not lane.drained.done():
                lane.drained.set_result(None)

    def _refuse(self, request: ScoringRequest, refusal: Refusal) -> None:
        request.is_over = True
        self.requests.scored(refusal.status, time.monotonic() - request.queued_at)
        request.refused(refusal)

    def _refuse_queued(self, refusal: Refusal) -> None:
        while self._queue:
            self._refuse(self._queue.popitem(last=False)[1], refusal)

    def _end_overdue(self, now: float) -> float:
        limits = self._limits
        while self._queue:
            oldest = next(iter(self._queue.values()))
            if oldest.queued_at + limits.queue_seconds > now:
                break
            del self._queue[oldest.id]
            waited = f"No worker was free for this request within {limits.queue_seconds:g} seconds."
            self._refuse(oldest, Refusal(503, waited, self._retry_seconds()))
        for lane in list(self._lanes.values()):
            for request in lane.time_out(now - limits.scoring_seconds):
                if not request.is_over:
                    self._refuse(request, Refusal(504, _too_slow(limits)))
            self._condemn_if_stuck(lane)
        working = (lane.earliest_begin() + limits.scoring_seconds for lane in self._lanes.values())
        return min(self._end_of_wait(now), min(working, default=math.inf))

    def _end_of_wait(self, now: float) -> float:
        """When to look again at those that are queued: each may begin at once, and be overdue before it would have
        waited too long."""
        if not self._queue:
            return math.inf
        oldest = next(iter(self._queue.values()))
        return min(oldest.queued_at + self._limits.queue_seconds, now + self._limits.scoring_seconds)

    def _condemn_if_stuck(self, lane: Lane) -> None:
        if lane.is_stuck() and not lane.is_condemned:
            lane.is_condemned = True
            lane.link.say_hung(_too_slow(self._limits))


def _by_room(free: tuple[int, Lane]) -> int:
    return free[0]


def _too_slow(limits: ServingLimits) -> str:
    return f"Scoring took longer than {limits.scoring_seconds:g} seconds (scoring_timeout_ms)."
