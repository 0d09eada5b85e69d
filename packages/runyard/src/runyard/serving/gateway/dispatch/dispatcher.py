"""Queue of one web service in front of its workers."""

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

from runyard.core.records.web_services import ServingLimits
from runyard.serving.gateway.dispatch.request import Refusal, ScoringRequest
from runyard.serving.gateway.dispatch.request_statistics import RequestStatistics
from runyard.serving.gateway.dispatch.worker_queue import Link, WorkerQueue
from runyard.serving.workers.frames import WorkerAnswer
from runyard.serving.workers.link import WorkerFacts

_FRAME_BYTES = 8 << 20
"""Limit for a frame with more than one request."""
CLIENT_GONE = 499
"""Status in metrics for a request whose client has disconnected."""
_LONGEST_RETRY_SECONDS = 30


class Dispatcher:
    """Sends requests to workers, oldest first, and returns their answers. Runs in the event loop.

    A free worker gets all queued requests, up to a limit, in one frame. No request waits for a batch to fill; requests
    that arrived while all workers were busy are sent together.
    """

    def __init__(self, limits: ServingLimits) -> None:
        self._loop = asyncio.get_running_loop()
        self._limits = limits
        self._workers: dict[Link, WorkerQueue] = {}
        self._queue: OrderedDict[int, ScoringRequest] = OrderedDict()
        self._last_id = 0
        self._is_dispatch_scheduled = False
        self._timer = DeadlineTimer(self._loop, self._expire_overdue)
        self._outage = ""
        self._closed_because = ""
        self._usage = UtilizationMeter()
        self.request_budget = ByteBudget(limits.queued_bytes)
        """Bytes of all request bodies that are being read, queued or in work."""
        self.unsent = ByteBudget(limits.queued_bytes)
        """Bytes of answers that clients have not read yet."""
        self.requests = RequestStatistics()
        self.facts: WorkerFacts | None = None
        """Facts of the worker that joined last."""

    @property
    def depth(self) -> int:
        return len(self._queue)

    @property
    def in_work(self) -> int:
        return sum(len(worker.in_work) for worker in self._workers.values())

    @property
    def is_served(self) -> bool:
        """Whether any worker can take requests."""
        return any(worker.link.is_open and not worker.is_reported_hung for worker in self._workers.values())

    @property
    def utilization(self) -> float:
        """Busy share of the workers' time since the last read, from 0 to 1."""
        slots = sum(worker.slots for worker in self._workers.values())
        return min(1.0, self._usage.read() / slots) if slots else 0.0

    def metrics(self) -> dict[str, Any]:
        return {**self.requests.summary(), "queued": self.depth, "in_work": self.in_work}

    def figures(self) -> dict[str, Any]:
        """For a metrics scrape: requests by status and a latency histogram since the gateway started."""
        return {**self.requests.figures(), "queued": self.depth}

    def join(self, link: Link) -> None:
        """Send requests to this worker, which is ready, from now on."""
        worker = WorkerQueue(link)
        link.answered = partial(self._answered, worker)
        link.lost = partial(self._lost, worker)
        self._workers[link] = worker
        self.facts = worker.facts
        self._schedule_dispatch()

    def retire(self, link: Link) -> "asyncio.Future[None]":
        """Send nothing more to this worker. The future is done once it has answered all it has, or is lost."""
        worker = self._workers.get(link)
        if worker is None:
            gone: asyncio.Future[None] = self._loop.create_future()
            gone.set_result(None)
            return gone
        if worker.drained is None:
            worker.drained = self._loop.create_future()
            self._remove_if_drained(worker)
        return worker.drained

    def reconfigure(self, limits: ServingLimits) -> None:
        self._limits = limits
        self.request_budget.limit = self.unsent.limit = limits.queued_bytes
        self._timer.check_now()

    def set_outage(self, problem: str | None) -> None:
        """Refuse requests with this problem while there is no worker; None: queue them."""
        self._outage = problem or ""
        if self._outage and not self.is_served:
            self._refuse_queued(Refusal(503, self._outage, self._retry_seconds()))

    def close(self, why: str) -> None:
        """Refuse every queued and later request. Requests in work are still answered."""
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
        self._schedule_dispatch()
        if not self._timer.is_set:
            self._timer.start(min(self._limits.queue_seconds, self._limits.scoring_seconds))

    def drop(self, request: ScoringRequest) -> None:
        """Forget a request whose client has disconnected: do not start it, and discard its answer."""
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
        slots = sum(worker.slots for worker in self._workers.values()) or 1
        typical = max((worker.typical_seconds for worker in self._workers.values()), default=1.0)
        return max(1, min(_LONGEST_RETRY_SECONDS, math.ceil(len(self._queue) * typical / slots)))

    def _schedule_dispatch(self) -> None:
        # Dispatch in the next iteration of the loop: all requests that arrive in this one share a frame.
        if not self._is_dispatch_scheduled:
            self._is_dispatch_scheduled = True
            self._loop.call_soon(self._dispatch)

    def _dispatch(self) -> None:
        self._is_dispatch_scheduled = False
        while self._queue:
            free = [(capacity, worker) for worker in self._workers.values() if (capacity := worker.capacity())]
            if not free:
                return
            capacity, worker = max(free, key=_by_capacity) if len(free) > 1 else free[0]
            share = -(-len(self._queue) // len(free))
            self._send(worker, min(capacity, share))

    def _send(self, worker: WorkerQueue, count: int) -> None:
        taken: list[ScoringRequest] = []
        queue, size = self._queue, 0
        while queue and len(taken) < count:
            _, request = queue.popitem(last=False)
            size += len(request.body)
            if taken and size > _FRAME_BYTES:
                self._put_back([request])
                break
            taken.append(request)
        now, used = time.monotonic(), worker.used
        if worker.send(taken, now):
            self._usage.add(worker.used - used, now)
        else:
            self._put_back(taken)

    def _put_back(self, requests: list[ScoringRequest]) -> None:
        for request in reversed(requests):
            self._queue[request.id] = request
            self._queue.move_to_end(request.id, last=False)

    def _answered(self, worker: WorkerQueue, answers: list[WorkerAnswer]) -> None:
        now, used = time.monotonic(), worker.used
        for answer in answers:
            request = worker.take(answer, now)
            if request is not None and not request.is_over:
                request.is_over = True
                self.requests.scored(answer.status, now - request.queued_at)
                request.answered(answer)
        self._usage.add(worker.used - used, now)
        if worker.drained is not None:
            self._remove_if_drained(worker)
        if worker.timed_out:
            self._report_if_stuck(worker)
        if self._queue:
            self._schedule_dispatch()

    def _lost(self, worker: WorkerQueue, cause: str) -> None:
        self._workers.pop(worker.link, None)
        self._usage.add(-worker.used, time.monotonic())
        unstarted = []
        for request in worker.clear():
            if request.is_over:
                continue
            if request.begun_at or request.was_retried:
                self._refuse(request, Refusal(502, f"The worker was lost while it had this request. {cause}"))
            else:
                request.was_retried = True
                unstarted.append(request)
        self._put_back(unstarted)
        if worker.drained is not None and not worker.drained.done():
            worker.drained.set_result(None)
        if self._outage:
            self.set_outage(self._outage)
        self._schedule_dispatch()

    def _remove_if_drained(self, worker: WorkerQueue) -> None:
        if worker.drained is not None and not worker.in_work:
            self._workers.pop(worker.link, None)
            if not worker.drained.done():
                worker.drained.set_result(None)

    def _refuse(self, request: ScoringRequest, refusal: Refusal) -> None:
        request.is_over = True
        self.requests.scored(refusal.status, time.monotonic() - request.queued_at)
        request.refused(refusal)

    def _refuse_queued(self, refusal: Refusal) -> None:
        while self._queue:
            self._refuse(self._queue.popitem(last=False)[1], refusal)

    def _expire_overdue(self, now: float) -> float:
        limits = self._limits
        while self._queue:
            oldest = next(iter(self._queue.values()))
            if oldest.queued_at + limits.queue_seconds > now:
                break
            del self._queue[oldest.id]
            waited = f"No worker was free for this request within {limits.queue_seconds:g} seconds."
            self._refuse(oldest, Refusal(503, waited, self._retry_seconds()))
        for worker in list(self._workers.values()):
            for request in worker.time_out(now - limits.scoring_seconds):
                if not request.is_over:
                    self._refuse(request, Refusal(504, _too_slow(limits)))
            self._report_if_stuck(worker)
        working = (worker.earliest_begin() + limits.scoring_seconds for worker in self._workers.values())
        return min(self._next_queue_deadline(now), min(working, default=math.inf))

    def _next_queue_deadline(self, now: float) -> float:
        """Next deadline of the queued requests: one may start at once and exceed the scoring timeout before its queue
        timeout."""
        if not self._queue:
            return math.inf
        oldest = next(iter(self._queue.values()))
        return min(oldest.queued_at + self._limits.queue_seconds, now + self._limits.scoring_seconds)

    def _report_if_stuck(self, worker: WorkerQueue) -> None:
        if worker.is_stuck() and not worker.is_reported_hung:
            worker.is_reported_hung = True
            worker.link.report_hung(_too_slow(self._limits))


def _by_capacity(free: tuple[int, WorkerQueue]) -> int:
    return free[0]


def _too_slow(limits: ServingLimits) -> str:
    return f"Scoring took longer than {limits.scoring_seconds:g} seconds (scoring_timeout_ms)."


_LONGEST_SECONDS = 3600.0


class DeadlineTimer:
    """One timer for many deadlines: it is not restarted for each of them, but computes the next one when it fires."""

    def __init__(self, loop: asyncio.AbstractEventLoop, check: Callable[[float], float]) -> None:
        """`check` gets time.monotonic(), handles what is due, and returns the next deadline; inf for none."""
        self._loop, self._check = loop, check
        self._timer: asyncio.TimerHandle | None = None
        self.is_set = False

    def start(self, seconds: float) -> None:
        """Fire after so long. A deadline added while the timer is set must not be earlier than this one."""
        self.cancel()
        self.is_set = True
        self._timer = self._loop.call_later(max(0.0, min(seconds, _LONGEST_SECONDS)), self._fire)

    def cancel(self) -> None:
        self.is_set = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def check_now(self) -> None:
        self.cancel()
        self._fire()

    def _fire(self) -> None:
        self.is_set, self._timer = False, None
        due = self._check(time.monotonic())
        if due != float("inf"):
            self.start(due - time.monotonic())


class ByteBudget:
    """Limit on the bytes that all requests, or all answers, of a web service hold together."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0

    def has(self, size: int) -> bool:
        """Whether `size` more bytes fit. A single one always does: its size has a limit of its own."""
        return not self.held or self.held + size <= self.limit

    def take(self, size: int) -> bool:
        """Reserve bytes; returns False, and reserves nothing, when they do not fit."""
        if not self.has(size):
            return False
        self.held += size
        return True

    def give_back(self, size: int) -> None:
        self.held -= size


class UtilizationMeter:
    """Average number of busy worker slots: integrates the level over time."""

    def __init__(self) -> None:
        self._level = 0.0
        self._area = 0.0
        self._changed_at = self._read_at = time.monotonic()

    def add(self, change: float, now: float) -> None:
        self._area += self._level * (now - self._changed_at)
        self._level, self._changed_at = self._level + change, now

    def read(self) -> float:
        """Mean level since the last call."""
        now = time.monotonic()
        self.add(0.0, now)
        seconds, area = now - self._read_at, self._area
        self._area, self._read_at = 0.0, now
        return area / seconds if seconds > 0 else self._level
