import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any
from urllib.parse import quote

import orjson
from starlette.responses import FileResponse, Response, StreamingResponse

from runyard.storage.blobs.content import FileContent

MAX_BUFFERED_BYTES = 4 * 1024 * 1024
ReadRange = Callable[[int, int], Iterator[bytes | memoryview]]
_MAX_DEPTH = 100
_OPTIONS = orjson.OPT_UTC_Z | orjson.OPT_PASSTHROUGH_SUBCLASS
_ANY_KEYS = _OPTIONS | orjson.OPT_NON_STR_KEYS
"""Makes encoding slower, by about half for a listing, and few responses have keys that are not strings."""


def to_json(value: Any) -> bytes:
    """Encode as JSON. Dataclasses become objects; times are UTC and end in Z.

    Never fails on a value that a script wrote: invalid UTF-8 is escaped, an integer beyond 64 bits becomes a float or
    text, and nesting beyond the limit becomes "...".
    """
    for option in (_OPTIONS, _ANY_KEYS):
        with contextlib.suppress(TypeError):
            return orjson.dumps(value, default=_plain, option=option)
    return orjson.dumps(_encodable(value), default=_plain, option=_ANY_KEYS)


class Json(Response):
    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return to_json(content)


class NoContent(Response):
    def __init__(self) -> None:
        super().__init__(status_code=204)


class Bytes(Response):
    media_type = "application/octet-stream"


def not_cached(answer: Response) -> Response:
    """Forbid caches to keep the response: it holds credentials."""
    answer.headers["Cache-Control"] = "no-store"
    return answer


def file_response(
    content: FileContent, name: str = "", *, headers: Mapping[str, str] | None = None, range: str | None = None
) -> Response:
    """Response with the bytes of a file. Headers keep browsers from rendering it. `range` is the Range header."""
    safe = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "sandbox", **(headers or {})}
    if name:
        safe["Content-Disposition"] = f"attachment; filename*=UTF-8''{quote(name.rpartition('/')[2], safe='')}"
    if content.part is not None:
        return _range_response(content, content.part, safe, range)
    if content.path is not None:
        return FileResponse(content.path, media_type="application/octet-stream", headers=safe)
    assert content.pieces is not None
    safe["Content-Length"] = str(content.size)
    return StreamingResponse(content.pieces(), media_type="application/octet-stream", headers=safe)


def head_response(size: int | None, etag: str) -> Response:
    """Response to HEAD. Without Content-Length where the size is unknown."""
    answer = Bytes(headers=_etag_header(etag) | {"Accept-Ranges": "bytes"})
    if size is None:
        del answer.headers["Content-Length"]
    else:
        answer.headers["Content-Length"] = str(size)
    return answer


def _range_response(content: FileContent, part: ReadRange, headers: dict[str, str], range: str | None) -> Response:
    headers |= {"Accept-Ranges": "bytes", **_etag_header(content.etag)}
    try:
        asked = parse_range(range, content.size)
    except RangeNotSatisfiable:
        return Bytes(status_code=416, headers={**headers, "Content-Range": f"bytes */{content.size}"})
    start, length = asked or (0, content.size)
    if asked:
        headers["Content-Range"] = f"bytes {start}-{start + length - 1}/{content.size}"
    status = 206 if asked else 200
    pieces = part(start, length)
    if length <= MAX_BUFFERED_BYTES:  # read first, so that a failure can still become an error response
        return Bytes(b"".join(pieces), status_code=status, headers=headers)
    headers["Content-Length"] = str(length)
    return StreamingResponse(pieces, status, media_type="application/octet-stream", headers=headers)


def _etag_header(etag: str) -> dict[str, str]:
    """ETag header from the store's etag; empty where a header cannot carry it."""
    clean = etag.strip('"')
    return {"ETag": f'"{clean}"'} if clean.isascii() and clean.isprintable() and clean and '"' not in clean else {}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, str):
        return str(value.value) if hasattr(value, "value") else str(value)
    if isinstance(value, (tuple, frozenset, set)):
        return list(value)
    raise TypeError(type(value).__name__)


def _encodable(value: Any, levels: int = _MAX_DEPTH) -> Any:
    if isinstance(value, str):
        return str(value).encode("utf-8", "backslashreplace").decode()
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return float(value) if abs(value) < 2**1023 else str(value)
    if is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    is_many = isinstance(value, (Mapping, list, tuple, set, frozenset))
    if is_many and levels == 0:
        return "..."
    if isinstance(value, Mapping):
        return {_encodable(key): _encodable(inner, levels - 1) for key, inner in value.items()}
    return [_encodable(inner, levels - 1) for inner in value] if is_many else value


_ONE_RANGE = re.compile(r"bytes=(\d{0,19})-(\d{0,19})")


class RangeNotSatisfiable(Exception):
    """The range begins past the end of the file."""


def parse_range(header: str | None, size: int) -> tuple[int, int] | None:
    """(start, length) of a Range header; None for the whole file, also for several ranges or an invalid header.

    Raises RangeNotSatisfiable.
    """
    found = _ONE_RANGE.fullmatch((header or "").strip())
    if found is None or found[0] == "bytes=-":
        return None
    first, last = found[1], found[2]
    if not first:
        length = min(int(last), size)
        start, end = size - length, size
    else:
        start, end = int(first), min(int(last) + 1, size) if last else size
        if last and int(last) < int(first):
            return None
    if start >= size or start >= end:
        raise RangeNotSatisfiable
    return start, end - start
