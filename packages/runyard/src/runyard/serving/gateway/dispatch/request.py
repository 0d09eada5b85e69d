from typing import NamedTuple, Protocol

from runyard.serving.workers.frames import WorkerAnswer


class Refusal(NamedTuple):
    """Answer of the gateway itself in place of a worker: status and message."""

    status: int
    message: str
    retry_seconds: int = 0
    """For Retry-After; 0 for none."""


class AssignedVersion(Protocol):
    """Version of an endpoint that a request was assigned to."""

    @property
    def field(self) -> bytes:
        """Header line of the answer that names the version."""


class ScoringRequest:
    """One request in a dispatcher; only the dispatcher writes its fields.

    Either `answered` or `refused` is called, once, in the event loop; neither for a dropped request.
    """

    __slots__ = (
        "assigned_version",
        "begun_at",
        "body",
        "frame",
        "id",
        "is_over",
        "is_plain",
        "is_timed_out",
        "queued_at",
        "was_retried",
    )

    def __init__(self, body: bytes, *, is_plain: bool = True) -> None:
        """`is_plain`: the head is sent only to workers that ask for heads."""
        self.body, self.is_plain = body, is_plain
        self.id = 0
        self.queued_at = 0.0
        self.begun_at = 0.0
        """0 until a worker has started it."""
        self.was_retried = False
        self.is_over = False
        """Answered, refused or dropped."""
        self.is_timed_out = False
        self.frame: list[int] | None = None
        self.assigned_version: AssignedVersion | None = None
        """Set for an endpoint with versions."""

    def head(self) -> bytes:
        """JSON of method, path, query and headers, as sent to workers."""
        raise NotImplementedError

    def answered(self, answer: WorkerAnswer) -> None:
        raise NotImplementedError

    def refused(self, refusal: Refusal) -> None:
        raise NotImplementedError
