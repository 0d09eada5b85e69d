"""Responses that stay open: log streams and long polls. The notifier wakes streams; they never poll the store."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from starlette.concurrency import run_in_threadpool

from runyard.core.principal import Principal
from runyard.errors import NotFound
from runyard.http.answers import to_json
from runyard.http.context import Services
from runyard.http.records import RunWire
from runyard.model.runs import RunId, RunRecord
from runyard.runs.history.following import Follows, LogText, Told
from runyard.runs.history.notifier import end_of

KEEP_ALIVE_SECONDS = 15.0


async def follow(
    services: Services, wire: RunWire, who: Principal, follower: Follows, run_id: RunId
) -> AsyncIterator[bytes]:
    """Yield NDJSON until the run has ended and its whole log was sent, or the service stops."""
    with services.notifier.following(run_id) as news:
        while not services.notifier.is_stopping:
            news.clear()
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
            if not follower.has_more and not await news.wait(KEEP_ALIVE_SECONDS):
                yield b"\n"


async def wait_for_change(
    services: Services, who: Principal, run_id: RunId, version: int | None, seconds: float
) -> RunRecord:
    """Wait until the run's version is above the given one (None: until it has ended) or the time is over; return it."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    with services.notifier.following(run_id if version is not None else end_of(run_id)) as news:
        while True:
            news.clear()
            run = await run_in_threadpool(services.runs.get, who, run_id)
            left = end - loop.time()
            is_news = version is not None and run.version > version
            if is_news or run.status.is_terminal or left <= 0 or services.notifier.is_stopping:
                return run
            await news.wait(left)


def _line(event: Told) -> dict[str, Any]:
    if isinstance(event, LogText):
        whose = {} if event.rank is None else {"rank": event.rank.rank, "role": event.rank.role}
        return {"log": event.log, **whose, "offset": event.offset, "next": event.next, "text": event.text}
    return {"status": event.status.value, "message": event.message}
