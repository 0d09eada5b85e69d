"""Request bodies: bounded when they are taken into memory, in pieces when they are not."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Annotated, Any, TypeVar

import orjson
from anyio import from_thread
from fastapi import Depends, Request
from starlette.requests import ClientDisconnect

from runyard.errors import InvalidArgument, TooLarge, TooSlow
from runyard.http.auth import require_living
from runyard.http.places import Places, Slots

PIECE_BYTES = 1024 * 1024
SENDERS_AT_ONCE = 64
"""Of the owner, and as many of all runs together."""
SENDERS_OF_A_RUN = 16
_SENDERS = Places(SENDERS_AT_ONCE, SENDERS_OF_A_RUN)
LEAST_BYTES_PER_SECOND = 1024
PATIENCE_SECONDS = 60.0
"""How long a sender may be slower than that: one that was stopped for a moment goes on."""
PATIENCE_WHEN_WANTED_SECONDS = 5.0
"""How long a silent one keeps its place while others wait for one."""
DEEPEST = 254
"""How deep orjson writes."""
T = TypeVar("T")


async def raw_body(request: Request) -> bytes:
    limit = int(request.app.state.settings.json_max_bytes)
    _refuse_above(int(request.headers.get("content-length") or 0), limit)
    pieces, total = [], 0
    async for piece in _paced(request):
        total += len(piece)
        _refuse_above(total, limit)
        pieces.append(piece)
    return b"".join(pieces)


async def json_body(request: Request) -> dict[str, Any]:
    data = await raw_body(request)
    try:
        body = orjson.loads(data) if data else {}
    except orjson.JSONDecodeError as problem:
        raise InvalidArgument(f"The body is not JSON: {problem}.") from None
    _refuse_deep(data, body)
    if not isinstance(body, dict):
        raise InvalidArgument("The body must be a JSON object.")
    return body


async def body_pieces(request: Request) -> Iterator[bytes]:
    """The body as it comes in, for work given to `take_in` that writes it to the disk. AttemptOver at its end for a
    node that was given up while it sent."""
    slots = request.state.sender_slots = _SENDERS.of(request.state.caller)
    stream = _gathered(_paced(request, slots))

    def pieces() -> Iterator[bytes]:
        while piece := from_thread.run(anext, stream, b""):
            yield piece
        require_living(request)

    return pieces()


async def take_in(request: Request, work: Callable[[], T]) -> T:
    """Do the work with the request's BodyPieces in a thread of those kept for bodies: senders hold up their own kind
    alone, those of one run no other's, and a silent one not even those."""
    slots: Slots = request.state.sender_slots
    return await slots.run(work)


async def _paced(request: Request, slots: Slots | None = None) -> AsyncIterator[bytes]:
    """The body as it comes. TooSlow where it comes too slowly for long, or not at all while others wait for its place.
    Only the time that the sender takes counts, not ours."""
    taken, size, has_more = 0.0, 0, True
    while has_more:
        waits_since, message = time.monotonic(), None
        while message is None:
            try:
                async with asyncio.timeout(PATIENCE_WHEN_WANTED_SECONDS):
                    message = await request.receive()
            except TimeoutError:
                if (slots is not None and slots.are_wanted) or _is_slow(taken + time.monotonic() - waits_since, size):
                    raise _too_slow() from None
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        piece, has_more = message.get("body", b""), message.get("more_body", False)
        taken, size = taken + time.monotonic() - waits_since, size + len(piece)
        if has_more and _is_slow(taken, size):
            raise _too_slow()
        if piece:
            yield piece


def _is_slow(seconds: float, size: int) -> bool:
    return seconds > PATIENCE_SECONDS and size < seconds * LEAST_BYTES_PER_SECOND


def _too_slow() -> TooSlow:
    return TooSlow("The body came too slowly.", hint="Send it again.")


async def _gathered(stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Larger pieces, since each costs a change of threads."""
    waiting: list[bytes] = []
    size = 0
    async for piece in stream:
        waiting.append(piece)
        size += len(piece)
        if size >= PIECE_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
    if waiting and size:
        yield b"".join(waiting)


def _refuse_above(size: int, limit: int) -> None:
    if size > limit:
        raise TooLarge(f"The body is larger than {limit} bytes.", hint="Send it in parts.")


def _refuse_deep(data: bytes, body: Any) -> None:
    """What works on a body walks through it, and a deep one would be more than the interpreter's stack holds."""
    if data.count(b"[") + data.count(b"{") <= DEEPEST:
        return
    try:
        orjson.dumps(body)  # it goes so deep and no deeper, and takes a moment
    except orjson.JSONEncodeError:
        raise InvalidArgument(f"The body is nested more than {DEEPEST} deep.", hint="Send it flatter.") from None


JsonBody = Annotated[dict[str, Any], Depends(json_body)]
RawBody = Annotated[bytes, Depends(raw_body)]
BodyPieces = Annotated[Iterator[bytes], Depends(body_pieces)]
