from typing import NamedTuple, Protocol

from runyard.serving.frames import WorkerAnswer


class Refusal(NamedTuple):
    """Why a request gets no answer of a worker."""

    status: int
    message: str
    retry_seconds: int = 0
    """Above 0: worth sending again after so long."""


class Taker(Protocol):
    """The version of an endpoint that a request was given to."""

    @property
    def field(self) -> bytes:
        """The line of an answer's head that names it."""


class ScoringRequest:
    """One request on its way through a dispatcher, which alone writes its fields.

    Either `answered` or `refused` is called, once, from the loop; neither for one that was dropped.
    """

    __slots__ = (
        "begun_at",
        "body",
        "frame",
        "id",
        "is_over",
        "is_plain",
        "is_timed_out",
        "queued_at",
        "taker",
        "was_retried",
    )

    def __init__(self, body: bytes, *, is_plain: bool = True) -> None:
        """`is_plain`: a worker that does not ask for heads gets none."""
        self.body, self.is_plain = body, is_plain
        self.id = 0
        self.queued_at = 0.0
        self.begun_at = 0.0
        """0 until a worker has begun it."""
        self.was_retried = False
        self.is_over = False
        """Answered, refused or dropped."""
        self.is_timed_out = False
        self.frame: list[int] | None = None
        self.taker: Taker | None = None
        """Where there are several versions."""

    def head(self) -> bytes:
        """JSON of method, path, query and headers, as workers get it."""
        raise NotImplementedError

    def answered(self, answer: WorkerAnswer) -> None:
        raise NotImplementedError

    def refused(self, refusal: Refusal) -> None:
        raise NotImplementedError
