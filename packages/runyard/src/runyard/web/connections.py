import contextlib
import socket
import struct
import time
from collections.abc import Callable
from typing import Protocol

from runyard.web.answers import Head, parse_head
from runyard.web.troubles import Broken

MAX_HEAD_BYTES = 64 * 1024
LEAST_BYTES_PER_SECOND = 1024
"""A body that comes more slowly, over `silence_seconds`, is broken: drops of bytes would hold a thread forever."""


class Stale(Broken):
    """A kept connection was closed before any byte of an answer came: the request can simply be sent anew."""


class Silent(Broken):
    """The server said nothing, or too little, for too long."""


class Stream(Protocol):
    """What of a socket, plain or with TLS, a connection uses."""

    def sendall(self, data: bytes, /) -> None: ...
    def recv_into(self, buffer: memoryview, nbytes: int = 0, flags: int = 0, /) -> int: ...
    def setsockopt(self, level: int, name: int, value: int, /) -> None: ...
    def close(self) -> None: ...


class Pace:
    """Watches that a transfer brings at least LEAST_BYTES_PER_SECOND over each time of silence spent on waiting."""

    def __init__(self, silence_seconds: float) -> None:
        self._silence_seconds = silence_seconds
        self.renew()

    def renew(self) -> None:
        self._seconds, self._bytes = 0.0, 0

    def took(self, seconds: float, came: int) -> None:
        """Silent when that was too slow."""
        self._seconds += seconds
        self._bytes += came
        if self._seconds < self._silence_seconds:
            return
        if self._bytes < LEAST_BYTES_PER_SECOND * self._silence_seconds:
            raise Silent(f"only {self._bytes} bytes came from the server in {self._seconds:.3g} seconds")
        self.renew()


class Connection:
    """One connection to a server, for one request after the other. Every trouble is Broken."""

    def __init__(self, stream: Stream, silence_seconds: float, *, is_secure: bool) -> None:
        self._stream, self._silence_seconds = stream, silence_seconds
        # A plain socket waits in the kernel for all that is asked: one call, one release of the interpreter's lock.
        self._wait_for_all = 0 if is_secure else socket.MSG_WAITALL
        self._content = bytearray(MAX_HEAD_BYTES)
        self._buffer = memoryview(self._content)
        self._begin = self._end = 0
        self._is_acknowledging = False
        self._pace = Pace(silence_seconds)
        self._trouble: Broken | None = None
        self.is_used = False

    @property
    def buffered(self) -> int:
        """Bytes that came and were not taken yet."""
        return self._end - self._begin

    def ask(self, request: bytes) -> Head:
        """Send a request and read the head of its answer. Stale when a used connection turns out to be closed."""
        try:
            self._begin = self._end = 0
            self.send(request)
            return self.head()
        except Broken as error:
            if self.is_used and not self.buffered and not isinstance(error, Silent):
                raise Stale(str(error)) from error
            raise
        finally:
            self.is_used = True

    def send(self, requests: bytes) -> None:
        """For who reads the answers one by one, in the same order."""
        try:
            self._stream.sendall(requests)
        except OSError as error:
            raise self._broken(error) from error

    def head(self) -> Head:
        """The head of the next answer, once the body before it was taken."""
        deadline = time.monotonic() + self._silence_seconds
        while True:
            while (end := self._content.find(b"\r\n\r\n", self._begin, self._end)) >= 0:
                head = parse_head(self._content[self._begin : end])
                self._begin = end + 4
                if head.status >= 200:
                    self._pace.renew()
                    return head
            if time.monotonic() > deadline:
                raise Silent(f"the server sent no whole answer for {self._silence_seconds:g} seconds")
            self._more("the server closed the connection without an answer", self._receive)

    def expect_many(self, buffer_bytes: int) -> None:
        """From now on several answers come at a time: take so much at once from the kernel."""
        # A server may hold back the end of one answer until what came before is acknowledged; that may take 40 ms.
        self._is_acknowledging = True
        if buffer_bytes > len(self._content):
            content = bytearray(buffer_bytes)
            content[: self.buffered] = self._buffer[self._begin : self._end]
            self._begin, self._end = 0, self.buffered
            self._content, self._buffer = content, memoryview(content)

    def fill(self, view: memoryview) -> int:
        """Fill the view; less when the connection ended. Trouble after some bytes is told by the next call."""
        if self._trouble:
            raise self._trouble
        wanted = len(view)
        got = self._end - self._begin
        if got > wanted:
            got = wanted
        if got:
            view[:got] = self._buffer[self._begin : self._begin + got]
            self._begin += got
        try:
            while got < wanted and (came := self._paced(view[got:], self._wait_for_all)):
                got += came
        except Broken as trouble:
            self._trouble = trouble
            if not got:
                raise
        return got

    def taken(self, size: int) -> memoryview:
        """So many of the buffered bytes."""
        begin, self._begin = self._begin, self._begin + size
        return memoryview(bytes(self._buffer[begin : self._begin]))

    def line(self) -> bytes:
        """Up to and without the next end of line, as chunks have them."""
        while (end := self._content.find(b"\n", self._begin, self._end)) < 0:
            self._more("the server ended the transfer early", self._paced)
        text = bytes(self._buffer[self._begin : end]).rstrip(b"\r")
        self._begin = end + 1
        return text

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.close()

    def _more(self, why_not: str, receive: Callable[[memoryview, int], int]) -> None:
        if self._begin:
            kept = bytes(self._buffer[self._begin : self._end])
            self._buffer[: len(kept)] = kept
            self._begin, self._end = 0, len(kept)
        if self._end >= MAX_HEAD_BYTES:
            raise Broken(f"the server sends headers of more than {MAX_HEAD_BYTES // 1024} KiB")
        came = receive(self._buffer[self._end :], 0)
        if not came:
            raise Broken(why_not)
        self._end += came

    def _paced(self, view: memoryview, flags: int) -> int:
        began = time.monotonic()
        came = self._receive(view, flags)
        if 0 < came < len(view):
            self._pace.took(time.monotonic() - began, came)
        return came

    def _receive(self, view: memoryview, flags: int) -> int:
        try:
            if self._is_acknowledging:
                self._stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
            return self._stream.recv_into(view, 0, flags)
        except OSError as error:
            raise self._broken(error) from error

    def _broken(self, error: OSError) -> Broken:
        if isinstance(error, TimeoutError | BlockingIOError):
            return Silent(f"nothing came from the server for {self._silence_seconds:g} seconds")
        return Broken(error.strerror or str(error) or type(error).__name__)


def set_silence(plain: socket.socket, seconds: float) -> None:
    """A time limit in the kernel: settimeout() would cost a poll() before every call."""
    whole, part = divmod(max(seconds, 0.001), 1)
    limit = struct.pack("ll", int(whole), int(part * 1_000_000))
    plain.settimeout(None)
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
