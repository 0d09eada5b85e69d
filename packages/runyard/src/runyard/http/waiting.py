import asyncio
from collections.abc import Callable
from functools import cache
from typing import Protocol, TypeVar

from anyio import CapacityLimiter, to_thread

from runyard.http.context import Services

LONGEST_WAIT_SECONDS = 60.0
# Long polls have threads of their own, so that no other request waits for one.
WAITERS_AT_ONCE = 200
ASK_AGAIN_SECONDS = 1.0


class Versioned(Protocol):
    @property
    def version(self) -> int: ...


R = TypeVar("R", bound=Versioned)


async def newer_record(services: Services, read: Callable[[float], R], version: int, timeout: float) -> R:
    """Wait until `read` returns a record above this version, or the time is over; return it. `read` may block for as
    many seconds as it is given."""
    loop = asyncio.get_running_loop()
    end = loop.time() + min(max(0.0, timeout), LONGEST_WAIT_SECONDS)
    while True:
        left = max(0.0, end - loop.time())
        record = await to_thread.run_sync(read, min(left, ASK_AGAIN_SECONDS), limiter=_waiters())
        if record.version > version or loop.time() >= end or services.notifier.is_stopping:
            return record


@cache
def _waiters() -> CapacityLimiter:
    return CapacityLimiter(WAITERS_AT_ONCE)
