"""Request bodies: read into memory up to a limit, or streamed to a worker thread."""

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

from runyard.core.errors import InvalidArgument, TooLarge, TooSlow
from runyard.server.auth import require_live_attempt
from runyard.server.http.thread_limits import CallerThreads, ThreadLimits

PIECE_BYTES = 1024 * 1024
MAX_UPLOADS = 64
"""Uploads at once of the owner, and as many of all runs together."""
MAX_UPLOADS_OF_A_RUN = 16
_UPLOAD_THREADS = ThreadLimits(MAX_UPLOADS, MAX_UPLOADS_OF_A_RUN)
MIN_BYTES_PER_SECOND = 1024
SLOW_SECONDS = 60.0
"""How long a sender may be slower than that before it is refused: a short pause does no harm."""
SLOW_SECONDS_WHEN_BUSY = 5.0
"""How long a silent sender keeps its thread while others wait for one."""
MAX_DEPTH = 254
"""Nesting that orjson can encode."""
MAX_LISTED_FIELDS = 20
"""Invalid fields that an error lists at most."""
T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)


async def raw_body(request: Request) -> bytes:
    """Dependency: the whole body. Raises TooLarge above the limit of the settings, and TooSlow."""
    limit = int(request.app.state.settings.json_max_bytes)
    _check_size(int(request.headers.get("content-length") or 0), limit)
    pieces, total = [], 0
    async for piece in _receive_paced(request):
        total += len(piece)
        _check_size(total, limit)
        pieces.append(piece)
    return b"".join(pieces)


def model_reader(model: type[M]) -> Callable[[Request], Awaitable[M]]:
    """Dependency: the body as this model. Raises InvalidArgument that names the invalid field."""

    async def read(request: Request) -> M:
        given = await json_body(request)
        try:
            return model.model_validate(given)
        except ValidationError as problem:
            raise validation_error(problem.errors(include_url=False)) from None

    return read


def parsed_reader(parse: Callable[[dict[str, Any]], T]) -> Callable[[Request], Awaitable[T]]:
    """Dependency: the body as `parse` reads and checks it."""

    async def read(request: Request) -> T:
        return parse(await json_body(request))

    return read


def validation_error(problems: Sequence[Any]) -> InvalidArgument:
    """InvalidArgument from pydantic's errors: the message names the first field, the facts list all."""
    found = [(".".join(str(part) for part in one["loc"]), _message_of(one)) for one in problems[:MAX_LISTED_FIELDS]]
    where, why = found[0]
    return InvalidArgument(
        f"{where}: {why}." if where else f"{why}.", fields=[{"path": path, "problem": why} for path, why in found]
    )


_JSON_MESSAGES = {
    "string_type": "must be a string",
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
}
"""Messages by pydantic's error type, in terms of JSON instead of Python."""


def _message_of(problem: Any) -> str:
    if problem["type"] == "missing":
        return "is missing"
    message = problem["msg"].removeprefix("Value error, ").rstrip(".").replace("Input should be", "must be")
    text = _JSON_MESSAGES.get(problem["type"], message)
    shown = ascii(problem.get("input"))
    return f"{text}, got {shown if len(shown) <= 80 else shown[:77] + '...'}"


async def json_body(request: Request) -> dict[str, Any]:
    data = await raw_body(request)
    try:
        body = orjson.loads(data) if data else {}
    except orjson.JSONDecodeError as problem:
        raise _not_json(data, problem) from None
    _check_depth(data, body)
    if not isinstance(body, dict):
        raise InvalidArgument("The body must be a JSON object.")
    return body


def _not_json(data: bytes, problem: orjson.JSONDecodeError) -> InvalidArgument:
    """The error for a body that orjson refuses. Valid JSON with a number beyond all range is named by its path."""
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
    """Dependency: the body in pieces, for work given to `take_in`. Iterating raises AttemptOver at the end where the
    caller's attempt ended during the upload."""
    slots = request.state.sender_slots = _UPLOAD_THREADS.of(request.state.caller)
    stream = _coalesced(_receive_paced(request, slots))

    def pieces() -> Iterator[bytes]:
        while piece := from_thread.run(anext, stream, b""):
            yield piece
        require_live_attempt(request)

    return pieces()


async def run_with_body(request: Request, work: Callable[[], T]) -> T:
    """Run work that reads the request's BodyPieces in a thread reserved for uploads, so that slow senders delay only
    other uploads, and those of one run no other run's."""
    slots: CallerThreads = request.state.sender_slots
    return await slots.run(work)


async def _receive_paced(request: Request, slots: CallerThreads | None = None) -> AsyncIterator[bytes]:
    """Pieces of the body as they arrive. Raises TooSlow for a sender that is slow for too long, or silent while others
    wait for its thread. Only the sender's time counts, not ours."""
    taken, size, has_more = 0.0, 0, True
    while has_more:
        waits_since, message = time.monotonic(), None
        while message is None:
            try:
                async with asyncio.timeout(SLOW_SECONDS_WHEN_BUSY):
                    message = await request.receive()
            except TimeoutError:
                if (slots is not None and slots.has_waiters) or _is_slow(taken + time.monotonic() - waits_since, size):
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
    return seconds > SLOW_SECONDS and size < seconds * MIN_BYTES_PER_SECOND


def _too_slow() -> TooSlow:
    return TooSlow("The body came too slowly.", hint="Send it again.")


async def _coalesced(stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Join small pieces, because each costs a thread switch."""
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


def _check_size(size: int, limit: int) -> None:
    if size > limit:
        raise TooLarge(f"The body is larger than {limit} bytes.", hint="Send it in parts.")


def _check_depth(data: bytes, body: Any) -> None:
    """Refuse deep nesting: code that walks the body would overflow the interpreter's stack."""
    if data.count(b"[") + data.count(b"{") <= MAX_DEPTH:
        return
    try:
        orjson.dumps(body)  # fails at exactly this depth, and is quick
    except orjson.JSONEncodeError:
        raise InvalidArgument(f"The body is nested more than {MAX_DEPTH} deep.", hint="Send it flatter.") from None


RawBody = Annotated[bytes, Depends(raw_body)]
BodyPieces = Annotated[Iterator[bytes], Depends(body_pieces)]
