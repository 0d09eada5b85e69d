import re
import zlib
from collections.abc import Iterator

from runyard.web.answers import Head
from runyard.web.connections import Connection
from runyard.web.troubles import Broken

_CHUNK_SIZE = re.compile(rb"([0-9a-fA-F]{1,15})[ \t]*(?:;.*)?")
MAX_TRAILER_LINES = 100
PIECE_BYTES = 1024 * 1024
DECODED = ("gzip", "x-gzip", "deflate")
_EITHER_HEADER = 32 + zlib.MAX_WBITS


class Body:
    """The bytes of an answer. `is_finished` once they came whole and the connection can be asked again."""

    is_finished = False

    def readinto(self, view: memoryview) -> int:
        """Fill the view; less when no more comes. The next call tells why: 0 after the body's end, else Broken."""
        raise NotImplementedError

    def fill(self, view: memoryview) -> int:
        """Fill the view; less at the body's end alone."""
        got = self.readinto(view)
        while got < len(view) and (came := self.readinto(view[got:])):
            got += came
        return got

    def take(self, size: int) -> memoryview | None:
        """So many bytes; None when the body has less."""
        view = memoryview(bytearray(size))
        return view if self.fill(view) == size else None

    def skip(self) -> None:
        """Finish without waiting, if the rest has come already."""


class SizedBody(Body):
    def __init__(self, connection: Connection, size: int) -> None:
        self._connection, self._size, self._left = connection, size, size
        self.is_finished = size == 0

    def readinto(self, view: memoryview) -> int:
        wanted = len(view)
        if wanted > self._left:
            wanted, view = self._left, view[: self._left]
        got = self._connection.fill(view) if wanted else 0
        self._left -= got
        if not got and wanted:
            raise Broken(f"the transfer ended after {self._size - self._left} of {self._size} bytes")
        self.is_finished = self._left == 0
        return got

    def take(self, size: int) -> memoryview | None:
        if size != self._left or size > self._connection.buffered:
            return super().take(size)
        self._left, self.is_finished = 0, True
        return self._connection.taken(size)

    def skip(self) -> None:
        if 0 < self._left <= self._connection.buffered:
            self.readinto(memoryview(bytearray(self._left)))


class ChunkedBody(Body):
    def __init__(self, connection: Connection) -> None:
        self._connection, self._left, self._is_first = connection, 0, True

    def readinto(self, view: memoryview) -> int:
        got = 0
        while got < len(view) and not self.is_finished:
            if not self._left:
                self._next_chunk()
            wanted = min(self._left, len(view) - got)
            came = self._connection.fill(view[got : got + wanted]) if wanted else 0
            self._left -= came
            got += came
            if came < wanted:
                break
        if not got and self._left:
            raise Broken("the transfer ended within a chunk")
        return got

    def _next_chunk(self) -> None:
        if not self._is_first and self._connection.line():
            raise Broken("the server sends malformed chunks")
        self._is_first = False
        match = _CHUNK_SIZE.fullmatch(self._connection.line())
        if not match:
            raise Broken("the server sends malformed chunks")
        self._left = int(match[1], 16)
        if self._left:
            return
        for _ in range(MAX_TRAILER_LINES):
            if not self._connection.line():
                self.is_finished = True
                return
        raise Broken("the server sends endless trailers")


class ClosedBody(Body):
    """Ends with the connection, as of old: a whole body cannot be told from one that was cut cleanly."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def readinto(self, view: memoryview) -> int:
        return self._connection.fill(view)


def body_of(head: Head, method: str, connection: Connection) -> Body:
    if method == "HEAD" or head.status in (204, 304):
        return SizedBody(connection, 0)
    if head.is_chunked:
        return ChunkedBody(connection)
    if head.length is not None:
        return SizedBody(connection, head.length)
    return ClosedBody(connection)


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
