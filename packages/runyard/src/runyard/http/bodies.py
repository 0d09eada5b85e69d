"""Request bodies: bounded when they are taken into memory, in pieces when they are not."""

from collections.abc import AsyncIterator, Callable, Iterator
from functools import cache
from typing import Annotated, Any, TypeVar

import orjson
from anyio import CapacityLimiter, from_thread, to_thread
from fastapi import Depends, Request

from runyard.errors import InvalidArgument, TooLarge
from runyard.http.auth import require_living

PIECE_BYTES = 1024 * 1024
SENDERS_AT_ONCE = 64
DEEPEST = 254
"""How deep orjson writes."""
T = TypeVar("T")


async def raw_body(request: Request) -> bytes:
    limit = int(request.app.state.settings.json_max_bytes)
    _refuse_above(int(request.headers.get("content-length") or 0), limit)
    pieces, total = [], 0
    async for piece in request.stream():
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
    stream = _gathered(request.stream())

    def pieces() -> Iterator[bytes]:
        while piece := from_thread.run(anext, stream, b""):
            yield piece
        require_living(request)

    return pieces()


async def take_in(work: Callable[[], T]) -> T:
    """Do the work in a thread of those kept for bodies: slow senders hold up each other alone."""
    return await to_thread.run_sync(work, limiter=_senders())


@cache
def _senders() -> CapacityLimiter:
    return CapacityLimiter(SENDERS_AT_ONCE)


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
