from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from httptools import HttpParserError, HttpResponseParser

from runyard.errors import RunyardError
from runyard.model.data import NetworkRules
from runyard.web.addresses import Address
from runyard.web.answers import Head, made_head
from runyard.web.client import SAME_ALWAYS
from runyard.web.network import MAX_HEAD_BYTES, Network, Stream
from runyard.web.parts import placed
from runyard.web.pool import Pool
from runyard.web.troubles import Broken

_REQUESTS_BYTES = 32 * 1024
"""Fits into the socket buffers: no deadlock with a server that reads no more requests until we read its responses."""
_BUFFER_BYTES = 512 * 1024
_MOST_REFUSAL_BYTES = 64 * 1024
_SILENCE_SECONDS = 5.0
_CONNECTIONS = 2
_HEADERS = "".join(f"{name}: {value}\r\n" for name, value in SAME_ALWAYS)


class Wish(NamedTuple):
    """Request for a whole file."""

    number: int
    address: Address
    size: int
    etag: str

    def message(self) -> bytes:
        address = self.address
        text = f"GET {address.target} HTTP/1.1\r\nHost: {address.authority}\r\n{_HEADERS}Range: bytes=0-{self.size - 1}"
        return f"{text}\r\n\r\n".encode("latin-1")


class _Ended(Exception):
    """The server sends no more responses on this connection."""


class Pipeline:
    """HTTP/1.1 pipelining: sends several requests before the first response, which saves waits and system calls.

    httpcore sends one request at a time, so httptools parses the responses here.

    Not every server supports it. It is used only for servers that have kept an HTTP/1.1 connection open, never through
    proxies, and not again for an origin that broke off or stayed silent. Files that do not come are left out.
    """

    def __init__(self, rules: NetworkRules) -> None:
        # A short timeout: the caller can read the files one by one instead.
        self._network = Network(replace(rules, silence_seconds=min(_SILENCE_SECONDS, rules.silence_seconds)))
        self._pool = Pool()
        self._keeps_alive: set[object] = set()
        self._excluded: set[object] = set()

    def read(self, requests: Sequence[Wish]) -> Iterator[tuple[int, memoryview]]:
        """Yield (number, content) of each file that came."""
        for origin, group in groupby(requests, key=lambda request: request.address[:3]):
            some = list(group)
            if origin not in self._excluded and self._network.proxy_of(some[0].address) is None:
                yield from self._read_from(origin, some)

    def close(self) -> None:
        self._pool.close()

    def _read_from(self, origin: tuple[str, str, int], requests: list[Wish]) -> Iterator[tuple[int, memoryview]]:
        """A server may close the connection between two responses. Then the rest is requested on a new one."""
        for _ in range(_CONNECTIONS):
            stream = None
            try:
                stream = self._pool.take(origin) or self._network.connect(requests[0].address)
                stream.acknowledges_at_once = True
                while requests:
                    yield from self._read_some(origin, requests, stream)
                self._pool.give(origin, stream)
                stream = None
            except _Ended:
                if requests:
                    continue
            except (Broken, RunyardError):  # no connection; the read of a single file raises the error
                pass
            finally:
                if stream:
                    stream.close()
            return
        self._excluded.add(origin)

    def _read_some(
        self, origin: tuple[str, str, int], requests: list[Wish], stream: Stream
    ) -> Iterator[tuple[int, memoryview]]:
        """Remove from `requests` what was answered. Raises _ConnectionEnded if no more will be."""
        messages = self._sent_at_once(origin, requests)
        answers = _Answers(requests, len(messages))
        try:
            stream.write(b"".join(messages))
            stream.end_head()
            while answers.left:
                data = stream.read(_BUFFER_BYTES)
                answers.feed(data)
                yield from answers.taken()
        except Broken as error:
            raise _Ended from error
        self._keeps_alive.add(origin)

    def _sent_at_once(self, origin: object, requests: Sequence[Wish]) -> Sequence[bytes]:
        messages = [requests[0].message()]
        room = _REQUESTS_BYTES - len(messages[0])
        for request in requests[1:] if origin in self._keeps_alive else ():
            messages.append(request.message())
            room -= len(messages[-1])
            if room < 0:
                return messages[:-1]
        return messages


class _Answers:
    """Parses the responses to the first `left` requests, in order. Removes a request when its response has a head."""

    def __init__(self, requests: list[Wish], left: int) -> None:
        self.left = left
        self._requests, self._came = requests, list[tuple[int, memoryview]]()
        self._parser = HttpResponseParser(self)
        self._head_bytes, self._has_ended = 0, False
        self._request: Wish | None = None

    def feed(self, data: bytes) -> None:
        """Parse received bytes. Complete files are in `taken()`, also if the connection has ended."""
        self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, _Ended):
            self._has_ended = True
        self._has_ended |= not data or self._head_bytes > MAX_HEAD_BYTES + _BUFFER_BYTES

    def taken(self) -> Iterator[tuple[int, memoryview]]:
        """Yield the files completed since the last call. Then raises _ConnectionEnded if no more will come."""
        came, self._came = self._came, []
        yield from came
        if self._has_ended:
            raise _Ended

    # The parser calls these.

    def on_message_begin(self) -> None:
        self._headers: list[tuple[bytes, bytes]] = []
        self._parts: list[bytes] = []
        self._size, self._is_right = 0, False

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:
            return
        if not self.left:
            raise _Ended
        self._request = self._requests.pop(0)
        head = made_head(status, self._headers)
        self._is_right = _is_right(head, self._request)
        has_end = head.is_chunked or head.length is not None or status in (204, 304)
        if not self._is_right and (not has_end or (head.length or 0) > _MOST_REFUSAL_BYTES):
            raise _Ended

    def on_body(self, data: bytes) -> None:
        self._head_bytes = 0
        self._size += len(data)
        self._parts.append(data if self._is_right else b"")
        if self._request and self._size > (self._request.size if self._is_right else _MOST_REFUSAL_BYTES):
            raise _Ended

    def on_message_complete(self) -> None:
        request, self._request, self._head_bytes = self._request, None, 0
        if request is None:
            return
        self.left -= 1
        if self._is_right and self._size == request.size:
            whole = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
            self._came.append((request.number, memoryview(whole)))
        self._has_ended |= not self._parser.should_keep_alive() or self._parser.get_http_version() != "1.1"


def _is_right(head: Head, request: Wish) -> bool:
    try:
        _, size = placed(head, request.address, 0, request.size)
    except (Broken, RunyardError):
        return False
    return size is not None and size >= request.size and request.etag in ("", head.version(size))
