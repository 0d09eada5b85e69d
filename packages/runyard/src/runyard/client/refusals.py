"""Errors of failed requests, and retries.

A failed request raises the service's own error, or ServiceUnavailable if another try may succeed.
"""

import json
import ssl

from runyard.errors import DataFailed, RunyardError, StorageFull, from_wire

_BUSY = frozenset({408, 425, 429})
_REFUSED_FOR_GOOD = frozenset({501, StorageFull.status})


class ServiceAway(Exception):
    """The service does not answer or cannot accept the request now; another try may succeed."""

    def __init__(self, reason: str, *, status: int = 0) -> None:
        """`status` is the HTTP status, 0 if no response came."""
        super().__init__(reason)
        self.status = status

    @property
    def is_full(self) -> bool:
        """True if the service's disk is full."""
        return self.status == StorageFull.status


class ServiceUntrusted(ServiceAway):
    """The service's certificate is not trusted."""


def refused(status: int, content: bytes, request_id: str, waits_for: frozenset[int]) -> RunyardError | ServiceAway:
    """The error for a response with status 400 or above.

    ServiceUnavailable if the error's class allows a retry (`is_retried`), for a failing or busy service, and for a
    status in `waits_for`. A DataFailed is final: the service has already retried.
    """
    error = _error_in(content)
    words = f"the service answered {status}: {_words(error, content)} (request {request_id})"
    if status in waits_for or _may_pass(status, error):
        return ServiceAway(words, status=status)
    return error or RunyardError(words)


def away(problem: Exception, request_id: str = "") -> ServiceAway:
    """The error for a request without a response; `request_id` is "" if none was sent."""
    words = f"{explained(problem)} (request {request_id})" if request_id else explained(problem)
    return ServiceUntrusted(words) if isinstance(problem, ssl.SSLCertVerificationError) else ServiceAway(words)


def explained(problem: Exception) -> str:
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
