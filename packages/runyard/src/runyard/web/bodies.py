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
    """The bytes of an answer."""

    def __init__(self, response: httpcore.Response, head: Head, stream: Stream, *, has_body: bool) -> None:
        self._pieces = iter(response.iter_stream())
        self._size = head.length if has_body else 0
        self._tells_end = head.is_chunked or self._size is not None
        self._stream = stream
        stream.end_head()
        self._piece, self._came, self._got, self._ended = memoryview(b""), 0, 0, False
        self._trouble: Broken | None = None

    @property
    def is_finished(self) -> bool:
        """Whether it came whole. One that ends with the connection cannot be told from one that was cut cleanly."""
        return self._tells_end and (self._ended or self._got == self._size)

    def readinto(self, view: memoryview) -> int:
        """Fill the view; less when no more comes. The next call tells why: 0 after the body's end, else Broken."""
        if self._trouble:
            raise self._trouble
        got, wanted = 0, len(view)
        while got < wanted and (self._piece or self._next()):
            part = self._piece[: wanted - got]
            view[got : got + len(part)] = part
            got, self._piece = got + len(part), self._piece[len(part) :]
        if self._trouble and not got:
            raise self._trouble
        self._got += got
        return got

    def fill(self, view: memoryview) -> int:
        """Fill the view; less at the body's end alone."""
        got = self.readinto(view)
        while got < len(view) and (came := self.readinto(view[got:])):
            got += came
        return got

    def skip(self) -> None:
        """Read to the end if that needs no wait, so that the connection can be kept."""
        if self._size is None or self._size > self._stream.body_bytes:
            return
        while self._next():
            pass

    @property
    def is_overrun(self) -> bool:
        """Whether more came than the body, which would be taken for the next answer of the connection."""
        if self._size is None:
            return self._ended and not _is_last_chunk(self._stream.last_bytes)
        return self._stream.body_bytes > self._size

    def _next(self) -> bool:
        """Take the next piece; False when there is none."""
        if self._ended or self._trouble:
            return False
        try:
            piece = next(self._pieces, None)
        except httpcore.ProtocolError as error:
            self._trouble = self._cut(error)
        except Broken as error:
            self._trouble = error
        else:
            self._ended = piece is None
            self._piece = memoryview(piece or b"")
            self._came += len(self._piece)
        return not (self._ended or self._trouble)

    def _cut(self, error: httpcore.ProtocolError) -> Broken:
        if self._size is not None:
            return Broken(f"the transfer ended after {self._came} of {self._size} bytes")
        return Broken(f"the server sends malformed chunks, or ended the transfer early: {error}")


def _is_last_chunk(raw: bytes) -> bool:
    """Whether the bytes end with the end of a chunked body: a chunk of size 0, trailers, an empty line."""
    start, *trailers = (b"\r\n" + raw[-_MAX_TRAILER_BYTES:]).rpartition(b"\r\n0")[2].split(b"\r\n")
    is_size = not start.partition(b";")[0].strip(b"0 ")
    return is_size and trailers[-2:] == [b"", b""] and all(b":" in line for line in trailers[:-2])


def pieces(body: Body, size: int | None) -> Iterator[memoryview]:
    """The bytes as they come. A piece holds only until the next is asked for."""
    view = memoryview(bytearray(min(PIECE_BYTES, size or PIECE_BYTES)))
    while got := body.readinto(view):
        yield view[:got]


def decoded(body: Body) -> Iterator[memoryview]:
    """The same of a body in one of the encodings DECODED, in small pieces however much they blow up."""
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
