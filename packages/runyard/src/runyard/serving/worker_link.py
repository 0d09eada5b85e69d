"""The gateway's end of the socket to one worker process."""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from runyard.serving.frames import (
    BrokenFrame,
    FrameReader,
    Kind,
    WorkerAnswer,
    WorkerRequest,
    decode_answers,
    encode,
    encode_requests,
)

_LARGEST_FACTS, _LARGEST_SCHEMA = 8 << 20, 512 << 10
_MOST_NOTES, _LONGEST_NOTE = 50, 1000
"""Far more than a worker of ours tells; but scripts run in it, and what it tells is kept and shown."""
_FEW_PIECES, _SMALL_BYTES = 3, 1 << 14
"""One small request goes out quicker in one piece."""


@dataclass(frozen=True)
class WorkerFacts:
    """What a worker tells of itself when it is ready."""

    pid: int
    wants_heads: bool = False
    batches: bool = False
    methods: tuple[str, ...] = ("POST",)
    schema: dict[str, Any] = field(default_factory=dict)
    init_seconds: float = 0.0
    import_seconds: float = 0.0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class InitFailure:
    problem: str
    hint: str = ""
    traceback: str = ""
    exception: str = ""


class LinkOwner(Protocol):
    """Who started the worker: hears how it came up, that its end of the socket closed, and that it hangs."""

    def became_ready(self, facts: WorkerFacts) -> None: ...
    def failed(self, failure: InitFailure) -> None: ...
    def closed(self, why: str) -> None: ...
    def hung(self, why: str) -> None: ...


def _nobody_hears_answers(answers: list[WorkerAnswer]) -> None: ...
def _nobody_hears_loss(cause: str) -> None: ...


class WorkerLink(asyncio.Protocol):
    """A dispatcher sets `answered` and `lost` when the link joins it, and sends from then on.

    `lost` is called once, with the cause in words, when the worker's process has ended without having been asked to.
    Between the end of the socket and that moment `is_open` is False already.
    """

    def __init__(self, owner: LinkOwner, *, requests_at_once: int = 1) -> None:
        self._owner, self._reader = owner, FrameReader()
        self._transport: asyncio.WriteTransport | None = None
        self.requests_at_once = requests_at_once
        self.facts: WorkerFacts | None = None
        """None until the worker is ready."""
        self.answered: Callable[[list[WorkerAnswer]], None] = _nobody_hears_answers
        self.lost: Callable[[str], None] = _nobody_hears_loss
        self.requests_answered = 0
        self.is_open = True

    def start(self, facts: dict[str, Any]) -> None:
        """Send the first frame: what the worker is to load."""
        self._write([encode(Kind.START, json.dumps(facts).encode())])

    def send(self, requests: Sequence[WorkerRequest]) -> bool:
        """One frame with these. False when the worker is gone: then none of them has reached it."""
        if not self.is_open:
            return False
        self._write(encode_requests(requests))
        return True

    def say_hung(self, why: str) -> None:
        """The dispatcher gave up waiting for an answer: the worker is killed, and `lost` follows."""
        self._owner.hung(why)

    def close(self) -> None:
        """The worker finishes what it has, then ends. Nothing can be sent any more; answers still come."""
        self.is_open = False
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write_eof()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            for kind, payload in self._reader.feed(data):
                self._take(kind, payload)
        except (BrokenFrame, ValueError, TypeError, KeyError) as error:
            self._break(f"The worker sent what is no answer: {error}.")

    def _take(self, kind: int, payload: bytes) -> None:
        if kind == Kind.ANSWERS:
            answers = decode_answers(payload)
            self.requests_answered += len(answers)
            self.answered(answers)
        elif len(payload) > _LARGEST_FACTS:
            raise BrokenFrame(f"{len(payload)} bytes about itself")
        elif kind == Kind.READY:
            self.facts = _worker_facts(json.loads(payload))
            self._owner.became_ready(self.facts)
        elif kind == Kind.FAILED:
            self._owner.failed(_init_failure(json.loads(payload)))
        else:
            raise BrokenFrame(f"a frame of kind {kind}")

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open = False
        self._owner.closed(str(error) if error else "")

    def _break(self, why: str) -> None:
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()
        self._owner.hung(why)

    def _write(self, pieces: list[bytes]) -> None:
        if self._transport is None:
            return
        if len(pieces) <= _FEW_PIECES and len(pieces[-1]) <= _SMALL_BYTES:
            self._transport.write(b"".join(pieces))
        else:
            self._transport.writelines(pieces)


def _worker_facts(told: dict[str, Any]) -> WorkerFacts:
    return WorkerFacts(
        pid=int(told["pid"]),
        wants_heads=bool(told.get("wants_heads", False)),
        batches=bool(told.get("batches", False)),
        methods=tuple(str(method) for method in told.get("methods", ("POST",))),
        schema=_bounded_schema(told.get("schema") or {}),
        init_seconds=float(told.get("init_seconds", 0.0)),
        import_seconds=float(told.get("import_seconds", 0.0)),
        notes=tuple(str(note)[:_LONGEST_NOTE] for note in told.get("notes", ())[:_MOST_NOTES]),
    )


def _bounded_schema(told: dict[str, Any]) -> dict[str, Any]:
    return dict(told) if len(json.dumps(told)) <= _LARGEST_SCHEMA else {}


def _init_failure(told: dict[str, Any]) -> InitFailure:
    return InitFailure(*(str(told.get(name) or "") for name in ("problem", "hint", "traceback", "exception")))
