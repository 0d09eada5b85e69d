import re
import zlib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple

import httpcore
from httpcore import Response

from runyard.core.errors import AccessDenied, DataFailed, NotFound, RunyardError, SourceChanged, TooLarge
from runyard.data.http.addresses import Address
from runyard.data.http.network_backend import HttpStream
from runyard.data.http.retries import TransientError

_CONTENT_RANGE = re.compile(r"bytes (?:([0-9]{1,18})-([0-9]{1,18})|\*)/([0-9]{1,18}|\*)")
_LENGTH = re.compile(r"[0-9]{1,18}")
"""A Content-Length with more digits counts as missing."""
_OWN_ENCODINGS = (".gz", ".tgz", ".z", ".svgz", ".bz2", ".br", ".zst", ".xz")


class ContentRange(NamedTuple):
    """Range of a partial response: [start, end), and the size of the whole file if known."""

    start: int
    end: int
    size: int | None


class ResponseHead(NamedTuple):
    """Status and header fields of a response; names in lower case."""

    status: int
    fields: dict[str, str]
    length: int | None
    """Content-Length."""
    is_chunked: bool

    @property
    def content_range(self) -> ContentRange | None:
        """Parsed Content-Range; None if missing or invalid."""
        match = _CONTENT_RANGE.fullmatch(self.fields.get("content-range", ""))
        if not match:
            return None
        first, last, whole = match.groups("0")
        start, end = int(first), int(last) + (match[2] is not None)
        size = None if whole == "*" else int(whole)
        return ContentRange(start, end, size) if start <= end and (size is None or end <= size) else None

    @property
    def modified_at(self) -> datetime | None:
        try:
            return parsedate_to_datetime(self.fields["last-modified"]).astimezone(UTC)
        except (KeyError, ValueError, OverflowError):
            return None

    @property
    def validator(self) -> str:
        """Value for If-Range; empty if there is none. A weak etag is not used: it may stand for other bytes."""
        tag = self.fields.get("etag", "")
        return tag if tag.startswith('"') else self.fields.get("last-modified", "")

    def version(self, size: int | None) -> str:
        """Etag of a file of that size, made from ETag or Last-Modified; empty if the server sends neither."""
        tag = self.fields.get("etag", "")
        if tag.startswith('"'):
            return tag
        modified = self.fields.get("last-modified", "")
        return f"modified {modified}, {size} bytes" if modified and size is not None else ""

    def foreign_encoding(self, path: str) -> str:
        """Content-Encoding that must be decoded, or empty. A 'x.gz' sent as gzip is the stored file itself."""
        encoding = self.fields.get("content-encoding", "").lower()
        is_plain = encoding in ("", "identity") or path.lower().endswith(_OWN_ENCODINGS)
        return "" if is_plain else encoding


def head_of(response: Response) -> ResponseHead:
    return parse_head(response.status, response.headers)


def parse_head(status: int, headers: Iterable[tuple[bytes, bytes]]) -> ResponseHead:
    """Head from parsed headers. Fields with the same name are joined."""
    fields: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        fields[name] = f"{fields[name]}, {value}" if name in fields else value
    is_chunked = "transfer-encoding" in fields
    length = fields.get("content-length", "")
    return ResponseHead(
        status, fields, int(length) if _LENGTH.fullmatch(length) and not is_chunked else None, is_chunked
    )


PIECE_BYTES = 1024 * 1024
DECODED = ("gzip", "x-gzip", "deflate")
_MAX_TRAILER_BYTES = 4096
_EITHER_HEADER = 32 + zlib.MAX_WBITS


class ResponseBody:
    """Body of a response."""

    def __init__(self, response: httpcore.Response, head: ResponseHead, stream: HttpStream, *, has_body: bool) -> None:
        self._pieces = iter(response.iter_stream())
        self._size = head.length if has_body else 0
        self._has_end_mark = head.is_chunked or self._size is not None
        self._stream = stream
        stream.end_head()
        self._piece, self._came, self._got, self._ended = memoryview(b""), 0, 0, False
        self._error: TransientError | None = None

    @property
    def is_finished(self) -> bool:
        """Whether the body is complete. Unknown, so False, for a body that ends with the connection."""
        return self._has_end_mark and (self._ended or self._got == self._size)

    def readinto(self, view: memoryview) -> int:
        """Fill the view, or less if no more comes. The next call then returns 0 at the end, or raises the error."""
        if self._error:
            raise self._error
        got, wanted = 0, len(view)
        while got < wanted and (self._piece or self._next()):
            part = self._piece[: wanted - got]
            view[got : got + len(part)] = part
            got, self._piece = got + len(part), self._piece[len(part) :]
        if self._error and not got:
            raise self._error
        self._got += got
        return got

    def fill(self, view: memoryview) -> int:
        """Fill the view; less only at the end of the body."""
        got = self.readinto(view)
        while got < len(view) and (came := self.readinto(view[got:])):
            got += came
        return got

    def skip(self) -> None:
        """Read to the end if that needs no waiting, so that the connection can be reused."""
        if self._size is None or self._size > self._stream.body_bytes:
            return
        while self._next():
            pass

    @property
    def is_overrun(self) -> bool:
        """Whether bytes follow the body: they would be taken for the next response of the connection."""
        if self._size is None:
            return self._ended and not _is_last_chunk(self._stream.last_bytes)
        return self._stream.body_bytes > self._size

    def _next(self) -> bool:
        """Read the next piece; False if there is none."""
        if self._ended or self._error:
            return False
        try:
            piece = next(self._pieces, None)
        except httpcore.ProtocolError as error:
            self._error = self._cut(error)
        except TransientError as error:
            self._error = error
        else:
            self._ended = piece is None
            self._piece = memoryview(piece or b"")
            self._came += len(self._piece)
        return not (self._ended or self._error)

    def _cut(self, error: httpcore.ProtocolError) -> TransientError:
        if self._size is not None:
            return TransientError(f"the transfer ended after {self._came} of {self._size} bytes")
        return TransientError(f"the server sends malformed chunks, or ended the transfer early: {error}")


def _is_last_chunk(raw: bytes) -> bool:
    """Whether the bytes end a chunked body: a chunk of size 0, trailers, an empty line."""
    start, *trailers = (b"\r\n" + raw[-_MAX_TRAILER_BYTES:]).rpartition(b"\r\n0")[2].split(b"\r\n")
    is_size = not start.partition(b";")[0].strip(b"0 ")
    return is_size and trailers[-2:] == [b"", b""] and all(b":" in line for line in trailers[:-2])


def pieces(body: ResponseBody, size: int | None) -> Iterator[memoryview]:
    """Yield the body in pieces. A piece is valid until the next one."""
    view = memoryview(bytearray(min(PIECE_BYTES, size or PIECE_BYTES)))
    while got := body.readinto(view):
        yield view[:got]


def decoded(body: ResponseBody) -> Iterator[memoryview]:
    """Yield the decoded body (encodings DECODED) in pieces of limited size, however well it was compressed."""
    decoder = zlib.decompressobj(_EITHER_HEADER)
    for piece in pieces(body, None):
        rest = bytes(piece)
        while rest:
            if decoder.eof:
                decoder = zlib.decompressobj(_EITHER_HEADER)
            try:
                plain = decoder.decompress(rest, PIECE_BYTES)
            except zlib.error as error:
                raise TransientError(f"the server sends a body that cannot be decoded: {error}") from error
            yield memoryview(plain)
            rest = decoder.unused_data if decoder.eof else decoder.unconsumed_tail
    if not decoder.eof:
        raise TransientError("the transfer ended within an encoded body")


_RETRIED_STATUSES = (408, 425, 429)


def status_error(address: Address, head: ResponseHead) -> RunyardError | TransientError:
    """Error for an unexpected status: a TransientError if a retry may help."""
    status = head.status
    if status in (404, 410):
        return NotFound(f"There is nothing at {address.shown}: the server answers {status}.", hint="Check the address.")
    if status in (401, 403, 407, 451):
        return AccessDenied(
            f"{address.shown} may not be read: the server answers {status}.",
            hint="Check that it is public, or that the signature in the address is valid still.",
        )
    if status >= 500 or status in _RETRIED_STATUSES:
        return TransientError(f"the server answers {status}", after_seconds=_retry_after(head))
    return DataFailed(f"{address.shown} could not be read: the server answers {status}.", hint="Check the address.")


def unknown_encoding(address: Address, encoding: str) -> DataFailed:
    return DataFailed(
        f"{address.shown} could not be read: the server sends it with the Content-Encoding {encoding[:40]!r}, "
        "though it was asked for the file as it lies.",
        hint="Have the server send it without, or name another address of the file.",
    )


def source_changed(address: Address) -> SourceChanged:
    return SourceChanged(
        f"{address.shown} is another file than when it was listed.",
        hint="Make a new version of the dataset to use it as it is now.",
    )


def too_large(address: Address, limit: int) -> TooLarge:
    return TooLarge(
        f"{address.shown} is larger than the {limit} bytes that a file may have.",
        hint="Check that its server sends an end, or ask the operator of this server to raise the limit.",
    )


def _retry_after(head: ResponseHead) -> float:
    text = head.fields.get("retry-after", "")
    if text.isdecimal():
        return float(text[:9])
    try:
        return max(0.0, (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return 0.0
