"""Gateway's end of the socket to one worker process."""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from runyard.serving.workers.frames import (
    BrokenFrame,
    FrameKind,
    FrameReader,
    WorkerAnswer,
    WorkerRequest,
    decode_answers,
    encode,
    encode_requests,
)

_LARGEST_FACTS, _LARGEST_SCHEMA = 8 << 20, 512 << 10
_MOST_NOTES, _LONGEST_NOTE = 50, 1000
"""Far above what our worker sends. A user's script runs in it, and what it sends is stored and shown."""
_FEW_PIECES, _SMALL_BYTES = 3, 1 << 14
"""A small request is sent faster as one piece."""


@dataclass(frozen=True)
class WorkerFacts:
    """Payload of the READY frame: what a worker says about itself."""

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
    """Payload of the FAILED frame: why init() failed."""

    problem: str
    hint: str = ""
    traceback: str = ""
    exception: str = ""


class LinkOwner(Protocol):
    """Callbacks to the owner of the worker process."""

    def became_ready(self, facts: WorkerFacts) -> None: ...
    def failed(self, failure: InitFailure) -> None: ...
    def closed(self, why: str) -> None: ...
    def hung(self, why: str) -> None: ...


def _ignore_answers(answers: list[WorkerAnswer]) -> None: ...
def _ignore_loss(cause: str) -> None: ...


class WorkerLink(asyncio.Protocol):
    """Sends requests to a worker and receives its answers. A dispatcher sets the callbacks `answered` and `lost`.

    `lost` is called once, with the cause as text, when the worker process has ended unasked. `is_open` is False as soon
    as the socket is closed, which may be earlier.
    """

    def __init__(self, owner: LinkOwner, *, requests_at_once: int = 1) -> None:
        self._owner, self._reader = owner, FrameReader()
        self._transport: asyncio.WriteTransport | None = None
        self.requests_at_once = requests_at_once
        self.facts: WorkerFacts | None = None
        """None until the worker is ready."""
        self.answered: Callable[[list[WorkerAnswer]], None] = _ignore_answers
        self.lost: Callable[[str], None] = _ignore_loss
        self.requests_answered = 0
        self.is_open = True

    def start(self, facts: dict[str, Any]) -> None:
        """Send the START frame: what the worker loads. Does nothing after `close`."""
        if self.is_open:
            self._write([encode(FrameKind.START, json.dumps(facts).encode())])

    def send(self, requests: Sequence[WorkerRequest]) -> bool:
        """Send them in one frame. Returns False when the worker is gone; then none of them has reached it."""
        if not self.is_open:
            return False
        self._write(encode_requests(requests))
        return True

    def report_hung(self, why: str) -> None:
        """The dispatcher gave up waiting for an answer: the owner kills the worker, and `lost` follows."""
        self._owner.hung(why)

    def close(self) -> None:
        """Send nothing more. The worker answers what it has, then exits; its answers are still received."""
        self.is_open = False
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write_eof()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)
        if not self.is_open:  # closed before there was a connection
            self._transport.write_eof()

    def data_received(self, data: bytes) -> None:
        try:
            for kind, payload in self._reader.feed(data):
                self._take(kind, payload)
        except (BrokenFrame, ValueError, TypeError, KeyError) as error:
            self._fail(f"The worker sent what is no answer: {error}.")

    def _take(self, kind: int, payload: bytes) -> None:
        if kind == FrameKind.ANSWERS:
            answers = decode_answers(payload)
            self.requests_answered += len(answers)
            self.answered(answers)
        elif len(payload) > _LARGEST_FACTS:
            raise BrokenFrame(f"{len(payload)} bytes about itself")
        elif kind == FrameKind.READY:
            self.facts = _worker_facts(json.loads(payload))
            self._owner.became_ready(self.facts)
        elif kind == FrameKind.FAILED:
            self._owner.failed(_init_failure(json.loads(payload)))
        else:
            raise BrokenFrame(f"a frame of kind {kind}")

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open = False
        self._owner.closed(str(error) if error else "")

    def abort(self) -> None:
        """Close the socket at once."""
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    def _fail(self, why: str) -> None:
        self.abort()
        self._owner.hung(why)

    def _write(self, pieces: list[bytes]) -> None:
        if self._transport is None:
            return
        if len(pieces) <= _FEW_PIECES and len(pieces[-1]) <= _SMALL_BYTES:
            self._transport.write(b"".join(pieces))
        else:
            self._transport.writelines(pieces)


def _worker_facts(payload: dict[str, Any]) -> WorkerFacts:
    return WorkerFacts(
        pid=int(payload["pid"]),
        wants_heads=bool(payload.get("wants_heads", False)),
        batches=bool(payload.get("batches", False)),
        methods=tuple(str(method) for method in payload.get("methods", ("POST",))),
        schema=_bounded_schema(payload.get("schema") or {}),
        init_seconds=float(payload.get("init_seconds", 0.0)),
        import_seconds=float(payload.get("import_seconds", 0.0)),
        notes=tuple(str(note)[:_LONGEST_NOTE] for note in payload.get("notes", ())[:_MOST_NOTES]),
    )


def _bounded_schema(schema: dict[str, Any]) -> dict[str, Any]:
    return dict(schema) if len(json.dumps(schema)) <= _LARGEST_SCHEMA else {}


def _init_failure(payload: dict[str, Any]) -> InitFailure:
    return InitFailure(*(str(payload.get(name) or "") for name in ("problem", "hint", "traceback", "exception")))
