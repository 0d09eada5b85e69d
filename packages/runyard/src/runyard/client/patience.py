import random
import time
from collections.abc import Callable
from typing import TypeVar

from runyard.client.refusals import ServiceAway

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.05, 2.0
T = TypeVar("T")


class Patience:
    """Growing pauses between the tries of one operation."""

    def __init__(
        self, seconds: float | None = None, give_up: Callable[[ServiceAway], Exception] = lambda away: away
    ) -> None:
        """Tries end `seconds` after the first failure with the exception that `give_up` makes of the last; None:
        never."""
        self._seconds, self._give_up = seconds, give_up
        self.renew()

    def renew(self) -> None:
        """Reset the pauses: the operation has made progress since the last failure."""
        self._ends_at, self._pause = 0.0, FIRST_PAUSE_SECONDS

    def next_pause(self) -> float:
        """Seconds to wait before the next try, for callers that do not use `wait`."""
        pause = self._pause * random.uniform(0.5, 1.0)  # nodes that lost one service do not all return at once
        self._pause = min(self._pause * 2, LONGEST_PAUSE_SECONDS)
        return pause

    def wait(self, failed: ServiceAway) -> None:
        """Sleep before the next try. Raises `give_up(failed)` if the time is over."""
        pause = self.next_pause()
        if self._seconds is not None:
            now = time.monotonic()
            self._ends_at = self._ends_at or now + self._seconds
            if now + pause > self._ends_at:
                raise self._give_up(failed) from failed
        time.sleep(pause)


def patiently(request: Callable[[], T], patience: Patience | None = None) -> T:
    """Repeat a request while it raises ServiceUnavailable: for ever, unless `patience` ends."""
    waits = patience or Patience()
    while True:
        try:
            return request()
        except ServiceAway as failed:
            waits.wait(failed)
