"""Responses that stay open: log streams and long polls. The notifier wakes streams; they never poll the store."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from functools import cache
from typing import Any, Protocol, TypeVar

from anyio import CapacityLimiter, to_thread
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from runyard.core.errors import NotFound
from runyard.core.principal import Principal
from runyard.core.records.runs import RunId, RunRecord
from runyard.runs.history.log_stream import LogFollower, LogText, StreamItem
from runyard.runs.history.notifications import end_topic
from runyard.server.api.records import RunSerializer
from runyard.server.http.responses import to_json
from runyard.server.http.worker_threads import run_in_thread
from runyard.server.services import Services

KEEP_ALIVE_SECONDS = 15.0


async def stream_run(
    services: Services, wire: RunSerializer, who: Principal, follower: LogFollower, run_id: RunId
) -> AsyncIterator[bytes]:
    """Yield NDJSON until the run has ended and its whole log was sent, or the service stops."""
    # By anyio's threads: StreamingResponse cancels by anyio, which waits until a step has ended.
    with services.notifier.following(run_id) as changes:
        while not services.notifier.is_stopping:
            changes.clear()
            try:
                events = await run_in_threadpool(follower.step)
            except NotFound:
                return  # deleted while being followed
            if events:
                yield b"".join(to_json(_line(one)) + b"\n" for one in events)
            if follower.ended is not None:
                end = await run_in_threadpool(wire.whole, who, follower.ended, metrics=True)
                yield to_json({"end": end}) + b"\n"
                return
            if not follower.has_more and not await changes.wait(KEEP_ALIVE_SECONDS):
                yield b"\n"


async def wait_for_change(
    services: Services,
    who: Principal,
    run_id: RunId,
    version: int | None,
    seconds: float,
    respond: Callable[[RunRecord], Response],
) -> Response:
    """Wait until the run's version is above the given one (None: until it has ended) or the time is over; return what
    `respond` makes of the run, in the thread that has read it."""
    end = time.monotonic() + seconds

    def response() -> Response | None:
        run = services.runs.get(who, run_id)
        is_newer = version is not None and run.version > version
        is_over = run.status.is_terminal or time.monotonic() >= end or services.notifier.is_stopping
        return respond(run) if is_newer or is_over else None

    with services.notifier.following(run_id if version is not None else end_topic(run_id)) as changes:
        while True:
            changes.clear()
            answer = await run_in_thread(response)
            if answer is not None:
                return answer
            await changes.wait(end - time.monotonic())


def _line(event: StreamItem) -> dict[str, Any]:
    if isinstance(event, LogText):
        whose = {} if event.rank is None else {"rank": event.rank.rank, "role": event.rank.role}
        return {"log": event.log, **whose, "offset": event.offset, "next": event.next, "text": event.text}
    return {"status": event.status.value, "message": event.message}


MAX_WAIT_SECONDS = 60.0
# Long polls have threads of their own, so that no other request waits for one.
MAX_WAITERS = 200
POLL_SECONDS = 1.0


class Versioned(Protocol):
    @property
    def version(self) -> int: ...


R = TypeVar("R", bound=Versioned)


async def wait_for_newer(services: Services, read: Callable[[float], R], version: int, timeout: float) -> R:
    """Wait until `read` returns a record above this version, or the time is over; return it. `read` may block for as
    many seconds as it is given."""
    loop = asyncio.get_running_loop()
    end = loop.time() + min(max(0.0, timeout), MAX_WAIT_SECONDS)
    while True:
        left = max(0.0, end - loop.time())
        record = await to_thread.run_sync(read, min(left, POLL_SECONDS), limiter=_waiters())
        if record.version > version or loop.time() >= end or services.notifier.is_stopping:
            return record


@cache
def _waiters() -> CapacityLimiter:
    return CapacityLimiter(MAX_WAITERS)
