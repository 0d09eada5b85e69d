"""Thread limits for slow requests, so that they delay only requests of the same kind."""

from collections.abc import Callable
from typing import TypeVar
from weakref import WeakValueDictionary

from anyio import CapacityLimiter, to_thread

from runyard.core.principal import Principal, Role

T = TypeVar("T")


class CallerThreads:
    """Threads of one caller, out of those shared with others."""

    def __init__(self, shared: CapacityLimiter, most: int) -> None:
        self._shared, self._own = shared, CapacityLimiter(most)

    async def run(self, work: Callable[[], T]) -> T:
        """Run the work in a thread, once one is free."""
        async with self._own:
            return await to_thread.run_sync(work, limiter=self._shared)

    @property
    def has_waiters(self) -> bool:
        return bool(self._own.statistics().tasks_waiting or self._shared.statistics().tasks_waiting)


class ThreadLimits:
    """At most `at_once` threads for the owner, as many for all runs together, and `of_a_run` for each run."""

    def __init__(self, at_once: int, of_a_run: int) -> None:
        self._at_once, self._of_a_run = at_once, of_a_run
        self._owners: CallerThreads | None = None
        self._of_runs: CapacityLimiter | None = None
        self._by_run: WeakValueDictionary[str, CallerThreads] = WeakValueDictionary()

    def of(self, caller: Principal) -> CallerThreads:
        """The caller's threads. Call it in the event loop."""
        if caller.role is Role.OWNER:
            self._owners = self._owners or CallerThreads(CapacityLimiter(self._at_once), self._at_once)
            return self._owners
        self._of_runs = self._of_runs or CapacityLimiter(self._at_once)
        slots = self._by_run.get(caller.run_id or "")
        if slots is None:
            slots = self._by_run[caller.run_id or ""] = CallerThreads(self._of_runs, self._of_a_run)
        return slots
