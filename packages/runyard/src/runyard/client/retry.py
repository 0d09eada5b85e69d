"""Errors of failed requests, and retries.

A failed request raises the service's own error, or ServiceUnavailable if another try may succeed.
"""

import json
import random
import ssl
import time
from collections.abc import Callable
from typing import TypeVar

from runyard.core.errors import DataFailed, RunyardError, StorageFull, from_wire

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.05, 2.0
T = TypeVar("T")


class ServiceUnavailable(Exception):
    """The service does not answer or cannot accept the request now; another try may succeed."""

    def __init__(self, reason: str, *, status: int = 0) -> None:
        """`status` is the HTTP status, 0 if no response came."""
        super().__init__(reason)
        self.status = status

    @property
    def is_full(self) -> bool:
        """True if the service's disk is full."""
        return self.status == StorageFull.status


class Backoff:
    """Growing pauses between the tries of one operation."""

    def __init__(
        self, seconds: float | None = None, give_up: Callable[[ServiceUnavailable], Exception] = lambda away: away
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

    def wait(self, failed: ServiceUnavailable) -> None:
        """Sleep before the next try. Raises `give_up(failed)` if the time is over."""
        pause = self.next_pause()
        if self._seconds is not None:
            now = time.monotonic()
            self._ends_at = self._ends_at or now + self._seconds
            if now + pause > self._ends_at:
                raise self._give_up(failed) from failed
        time.sleep(pause)


def retry_while_unavailable(request: Callable[[], T], patience: Backoff | None = None) -> T:
    """Repeat a request while it raises ServiceUnavailable: for ever, unless `patience` ends."""
    waits = patience or Backoff()
    while True:
        try:
            return request()
        except ServiceUnavailable as failed:
            waits.wait(failed)


_BUSY = frozenset({408, 425, 429})
_REFUSED_FOR_GOOD = frozenset({501, StorageFull.status})


class ServiceUntrusted(ServiceUnavailable):
    """The service's certificate is not trusted."""


def response_error(
    status: int, content: bytes, request_id: str, waits_for: frozenset[int]
) -> RunyardError | ServiceUnavailable:
    """The error for a response with status 400 or above.

    ServiceUnavailable if the error's class allows a retry (`is_retried`), for a failing or busy service, and for a
    status in `waits_for`. A DataFailed is final: the service has already retried.
    """
    error = _error_in(content)
    words = f"the service answered {status}: {_words(error, content)} (request {request_id})"
    if status in waits_for or _may_pass(status, error):
        return ServiceUnavailable(words, status=status)
    return error or RunyardError(words)


def connection_error(problem: Exception, request_id: str = "") -> ServiceUnavailable:
    """The error for a request without a response; `request_id` is "" if none was sent."""
    words = (
        f"{explain_connection_error(problem)} (request {request_id})"
        if request_id
        else explain_connection_error(problem)
    )
    return ServiceUntrusted(words) if isinstance(problem, ssl.SSLCertVerificationError) else ServiceUnavailable(words)


def explain_connection_error(problem: Exception) -> str:
    """Why a request did not reach the service. For an untrusted certificate it says what to set."""
    if isinstance(problem, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not trusted ({problem.verify_message}); RUNYARD_CA names a file of certificates to "
            "trust, on a node that the service set up the operator sets it for the service"
        )
    return f"{type(problem).__name__}: {problem}"


def _may_pass(status: int, error: RunyardError | None) -> bool:
    if error is not None and error.is_retried:
        return True
    is_failing = status >= 500 and status not in _REFUSED_FOR_GOOD
    return (status in _BUSY or is_failing) and not isinstance(error, DataFailed)


def _error_in(content: bytes) -> RunyardError | None:
    """The service's error in a response; None for anything else, such as a proxy's page."""
    try:
        body = json.loads(content)
        return from_wire(body) if "code" in body or "problem" in body else None
    except (ValueError, AttributeError, TypeError, RecursionError):
        return None


def _words(error: RunyardError | None, content: bytes) -> str:
    return error.problem if error is not None else content[:300].decode("utf-8", "replace")
