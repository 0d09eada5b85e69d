import zlib
from collections.abc import Iterator

import httpcore

from runyard.web.answers import Head
from runyard.web.network import Stream
from runyard.web.troubles import Broken

PIECE_BYTES = 1024 * 1024
DECODED = ("gzip", "x-gzip", "deflate")
_MAX_TRAILER_BYTES = 4096
_EITHER_HEADER = 32 + zlib.MAX_WBITS


class Body:
    """Body of a response."""

    def __init__(self, response: httpcore.Response, head: Head, stream: Stream, *, has_body: bool) -> None:
        self._pieces = iter(response.iter_stream())
        self._size = head.length if has_body else 0
        self._has_end_mark = head.is_chunked or self._size is not None
        self._stream = stream
        stream.end_head()
        self._piece, self._came, self._got, self._ended = memoryview(b""), 0, 0, False
        self._error: Broken | None = None

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
        except Broken as error:
            self._error = error
        else:
            self._ended = piece is None
            self._piece = memoryview(piece or b"")
            self._came += len(self._piece)
        return not (self._ended or self._error)

    def _cut(self, error: httpcore.ProtocolError) -> Broken:
        if self._size is not None:
            return Broken(f"the transfer ended after {self._came} of {self._size} bytes")
        return Broken(f"the server sends malformed chunks, or ended the transfer early: {error}")


def _is_last_chunk(raw: bytes) -> bool:
    """Whether the bytes end a chunked body: a chunk of size 0, trailers, an empty line."""
    start, *trailers = (b"\r\n" + raw[-_MAX_TRAILER_BYTES:]).rpartition(b"\r\n0")[2].split(b"\r\n")
    is_size = not start.partition(b";")[0].strip(b"0 ")
    return is_size and trailers[-2:] == [b"", b""] and all(b":" in line for line in trailers[:-2])


def pieces(body: Body, size: int | None) -> Iterator[memoryview]:
    """Yield the body in pieces. A piece is valid until the next one."""
    view = memoryview(bytearray(min(PIECE_BYTES, size or PIECE_BYTES)))
    while got := body.readinto(view):
        yield view[:got]


def decoded(body: Body) -> Iterator[memoryview]:
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
                raise Broken(f"the server sends a body that cannot be decoded: {error}") from error
            yield memoryview(plain)
            rest = decoder.unused_data if decoder.eof else decoder.unconsumed_tail
    if not decoder.eof:
        raise Broken("the transfer ended within an encoded body")
