import random
import time

from runyard.core.errors import Unreachable
from runyard.core.records.data import NetworkRules

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 10.0


class TransientError(Exception):
    """An attempt failed; a retry may succeed."""

    def __init__(self, why: str, *, after_seconds: float = 0.0) -> None:
        super().__init__(why)
        self.after_seconds = after_seconds
        """Retry-After of the server."""


class HttpBackoff:
    """Pauses between retries: growing, until `retry_seconds` after the first failure."""

    def __init__(self, shown: str, rules: NetworkRules) -> None:
        self._shown, self._rules = shown, rules
        self.renew()

    def renew(self) -> None:
        """Start over after progress: the next failure counts as the first."""
        self._ends_at, self._pause = 0.0, FIRST_PAUSE_SECONDS

    def wait(self, failure: TransientError) -> None:
        """Sleep before the next attempt. Raises Unreachable when the time is over."""
        now = time.monotonic()
        if not self._ends_at:
            self._ends_at = now + self._rules.retry_seconds
        pause = max(failure.after_seconds, self._pause * random.uniform(0.5, 1.0))
        if now + pause > self._ends_at:
            raise Unreachable(
                f"{self._shown} could not be read: {failure}.",
                hint="Check the address and the proxy settings, or try again later.",
            ) from failure
        time.sleep(pause)
        self._pause = min(self._pause * 2, LONGEST_PAUSE_SECONDS)
