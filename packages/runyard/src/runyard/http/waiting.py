"""Requests that are answered once something has changed."""

import asyncio
from collections.abc import Callable
from functools import cache
from typing import Protocol, TypeVar

from anyio import CapacityLimiter, to_thread

from runyard.http.context import Services

LONGEST_WAIT_SECONDS = 60.0
# Those who wait hold threads of their own, so that nobody else waits for one; a service that stops waits for none.
WAITERS_AT_ONCE = 200
ASK_AGAIN_SECONDS = 1.0


class Versioned(Protocol):
    @property
    def version(self) -> int: ...


R = TypeVar("R", bound=Versioned)


async def newer_record(services: Services, look: Callable[[float], R], version: int, timeout: float) -> R:
    """The record of `look`, once its version is above that or the time is over. `look` may wait for as many seconds
    as it is given."""
    loop = asyncio.get_running_loop()
    end = loop.time() + min(max(0.0, timeout), LONGEST_WAIT_SECONDS)
    while True:
        left = max(0.0, end - loop.time())
        record = await to_thread.run_sync(look, min(left, ASK_AGAIN_SECONDS), limiter=_waiters())
        if record.version > version or loop.time() >= end or services.notifier.is_stopping:
            return record


@cache
def _waiters() -> CapacityLimiter:
    return CapacityLimiter(WAITERS_AT_ONCE)
