"""Request bodies: bounded when they are taken into memory, in pieces when they are not."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Annotated, Any, TypeVar

import orjson
from anyio import from_thread
from fastapi import Depends, Request
from pydantic import BaseModel, ValidationError
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
MOST_NAMED = 20
"""Fields that a refusal lists."""
T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)


async def raw_body(request: Request) -> bytes:
    limit = int(request.app.state.settings.json_max_bytes)
    _refuse_above(int(request.headers.get("content-length") or 0), limit)
    pieces, total = [], 0
    async for piece in _paced(request):
        total += len(piece)
        _refuse_above(total, limit)
        pieces.append(piece)
    return b"".join(pieces)


def reader_of(model: type[M]) -> Callable[[Request], Awaitable[M]]:
    """A dependency: the body as that model. InvalidArgument names the field that is not as it must be."""

    async def read(request: Request) -> M:
        given = await json_body(request)
        try:
            return model.model_validate(given)
        except ValidationError as problem:
            raise not_as_expected(problem.errors(include_url=False)) from None

    return read


def reader_by(parse: Callable[[dict[str, Any]], T]) -> Callable[[Request], Awaitable[T]]:
    """A dependency: the body as `parse` reads and checks it."""

    async def read(request: Request) -> T:
        return parse(await json_body(request))

    return read


def not_as_expected(problems: Sequence[Any]) -> InvalidArgument:
    """From what pydantic found: the path of the first field in words, and all paths as a fact."""
    said = [(".".join(str(part) for part in one["loc"]), _in_words(one)) for one in problems[:MOST_NAMED]]
    where, why = said[0]
    return InvalidArgument(
        f"{where}: {why}." if where else f"{why}.", fields=[{"path": path, "problem": why} for path, why in said]
    )


_WORDS = {
    "string_type": "must be a string",
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
}
"""What pydantic says in the words of Python, in those of JSON."""


def _in_words(problem: Any) -> str:
    if problem["type"] == "missing":
        return "is missing"
    said = problem["msg"].removeprefix("Value error, ").rstrip(".").replace("Input should be", "must be")
    text = _WORDS.get(problem["type"], said)
    shown = ascii(problem.get("input"))
    return f"{text}, got {shown if len(shown) <= 80 else shown[:77] + '...'}"


async def json_body(request: Request) -> dict[str, Any]:
    data = await raw_body(request)
    try:
        body = orjson.loads(data) if data else {}
    except orjson.JSONDecodeError as problem:
        raise _not_json(data, problem) from None
    _refuse_deep(data, body)
    if not isinstance(body, dict):
        raise InvalidArgument("The body must be a JSON object.")
    return body


def _not_json(data: bytes, problem: orjson.JSONDecodeError) -> InvalidArgument:
    """Of a number that is too large for everything, its path: it is JSON, and somebody gave it for a field."""
    try:
        where = _path_of_huge_number(json.loads(data))
    except (ValueError, RecursionError):
        where = None
    if where is None:
        return InvalidArgument(f"The body is not JSON: {problem}.")
    why = "must be a number below 1e308"
    return InvalidArgument(f"{where}: {why}.", fields=[{"path": where, "problem": why}])


def _path_of_huge_number(value: Any, path: tuple[str, ...] = ()) -> str | None:
    if isinstance(value, int) and abs(value) >= 10**308:
        return ".".join(path)
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return next((found for name, one in inner if (found := _path_of_huge_number(one, (*path, str(name))))), None)


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


RawBody = Annotated[bytes, Depends(raw_body)]
BodyPieces = Annotated[Iterator[bytes], Depends(body_pieces)]
