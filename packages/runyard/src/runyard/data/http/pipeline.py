import os
import threading
import time
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from httptools import HttpParserError, HttpResponseParser

from runyard.core.errors import RunyardError
from runyard.core.records.data import NetworkRules
from runyard.data.http.addresses import Address
from runyard.data.http.client import COMMON_HEADERS, MAX_IDLE_SECONDS, MAX_KEPT
from runyard.data.http.network_backend import MAX_HEAD_BYTES, GuardedNetwork, HttpStream
from runyard.data.http.ranges import check_range
from runyard.data.http.responses import ResponseHead, parse_head
from runyard.data.http.retries import TransientError

_REQUESTS_BYTES = 32 * 1024
"""Fits into the socket buffers: no deadlock with a server that reads no more requests until we read its responses."""
_BUFFER_BYTES = 512 * 1024
_MOST_REFUSAL_BYTES = 64 * 1024
_SILENCE_SECONDS = 5.0
_CONNECTIONS = 2
_HEADERS = "".join(f"{name}: {value}\r\n" for name, value in COMMON_HEADERS)


class FileRequest(NamedTuple):
    """Request for a whole file."""

    number: int
    address: Address
    size: int
    etag: str

    def message(self) -> bytes:
        address = self.address
        text = f"GET {address.target} HTTP/1.1\r\nHost: {address.authority}\r\n{_HEADERS}Range: bytes=0-{self.size - 1}"
        return f"{text}\r\n\r\n".encode("latin-1")


class _ConnectionEnded(Exception):
    """The server sends no more responses on this connection."""


class Pipeline:
    """HTTP/1.1 pipelining: sends several requests before the first response, which saves waits and system calls.

    httpcore sends one request at a time, so httptools parses the responses here.

    Not every server supports it. It is used only for servers that have kept an HTTP/1.1 connection open, never through
    proxies, and not again for an origin that broke off or stayed silent. Files that do not come are left out.
    """

    def __init__(self, rules: NetworkRules) -> None:
        # A short timeout: the caller can read the files one by one instead.
        self._network = GuardedNetwork(replace(rules, silence_seconds=min(_SILENCE_SECONDS, rules.silence_seconds)))
        self._pool = StreamPool()
        self._keeps_alive: set[object] = set()
        self._excluded: set[object] = set()

    def read(self, requests: Sequence[FileRequest]) -> Iterator[tuple[int, memoryview]]:
        """Yield (number, content) of each file that came."""
        for origin, group in groupby(requests, key=lambda request: request.address[:3]):
            some = list(group)
            if origin not in self._excluded and self._network.proxy_of(some[0].address) is None:
                yield from self._read_from(origin, some)

    def close(self) -> None:
        self._pool.close()

    def _read_from(self, origin: tuple[str, str, int], requests: list[FileRequest]) -> Iterator[tuple[int, memoryview]]:
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
            except _ConnectionEnded:
                if requests:
                    continue
            except (TransientError, RunyardError):  # no connection; the read of a single file raises the error
                pass
            finally:
                if stream:
                    stream.close()
            return
        self._excluded.add(origin)

    def _read_some(
        self, origin: tuple[str, str, int], requests: list[FileRequest], stream: HttpStream
    ) -> Iterator[tuple[int, memoryview]]:
        """Remove from `requests` what was answered. Raises _ConnectionEnded if no more will be."""
        messages = self._sent_at_once(origin, requests)
        answers = _ResponseParser(requests, len(messages))
        try:
            stream.write(b"".join(messages))
            stream.end_head()
            while answers.left:
                data = stream.read(_BUFFER_BYTES)
                answers.feed(data)
                yield from answers.taken()
        except TransientError as error:
            raise _ConnectionEnded from error
        self._keeps_alive.add(origin)

    def _sent_at_once(self, origin: object, requests: Sequence[FileRequest]) -> Sequence[bytes]:
        messages = [requests[0].message()]
        room = _REQUESTS_BYTES - len(messages[0])
        for request in requests[1:] if origin in self._keeps_alive else ():
            messages.append(request.message())
            room -= len(messages[-1])
            if room < 0:
                return messages[:-1]
        return messages


class _ResponseParser:
    """Parses the responses to the first `left` requests, in order. Removes a request when its response has a head."""

    def __init__(self, requests: list[FileRequest], left: int) -> None:
        self.left = left
        self._requests, self._came = requests, list[tuple[int, memoryview]]()
        self._parser = HttpResponseParser(self)
        self._head_bytes, self._has_ended = 0, False
        self._request: FileRequest | None = None

    def feed(self, data: bytes) -> None:
        """Parse received bytes. Complete files are in `taken()`, also if the connection has ended."""
        self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, _ConnectionEnded):
            self._has_ended = True
        self._has_ended |= not data or self._head_bytes > MAX_HEAD_BYTES + _BUFFER_BYTES

    def taken(self) -> Iterator[tuple[int, memoryview]]:
        """Yield the files completed since the last call. Then raises _ConnectionEnded if no more will come."""
        came, self._came = self._came, []
        yield from came
        if self._has_ended:
            raise _ConnectionEnded

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
            raise _ConnectionEnded
        self._request = self._requests.pop(0)
        head = parse_head(status, self._headers)
        self._is_right = _is_right(head, self._request)
        has_end = head.is_chunked or head.length is not None or status in (204, 304)
        if not self._is_right and (not has_end or (head.length or 0) > _MOST_REFUSAL_BYTES):
            raise _ConnectionEnded

    def on_body(self, data: bytes) -> None:
        self._head_bytes = 0
        self._size += len(data)
        self._parts.append(data if self._is_right else b"")
        if self._request and self._size > (self._request.size if self._is_right else _MOST_REFUSAL_BYTES):
            raise _ConnectionEnded

    def on_message_complete(self) -> None:
        request, self._request, self._head_bytes = self._request, None, 0
        if request is None:
            return
        self.left -= 1
        if self._is_right and self._size == request.size:
            whole = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
            self._came.append((request.number, memoryview(whole)))
        self._has_ended |= not self._parser.should_keep_alive() or self._parser.get_http_version() != "1.1"


def _is_right(head: ResponseHead, request: FileRequest) -> bool:
    try:
        _, size = check_range(head, request.address, 0, request.size)
    except (TransientError, RunyardError):
        return False
    return size is not None and size >= request.size and request.etag in ("", head.version(size))


class StreamPool:
    """Idle connections by origin. A forked child starts with none: two processes that read from one connection would
    each get parts of the other's response."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._kept: list[tuple[Hashable, HttpStream, float]] = []

    def take(self, origin: Hashable) -> HttpStream | None:
        """Take the most recently used connection: it is the least likely to be closed by the server."""
        if os.getpid() != self._pid:
            self.__init__()  # type: ignore[misc]
        with self._lock:
            for index in range(len(self._kept) - 1, -1, -1):
                if self._kept[index][0] == origin:
                    _, connection, since = self._kept.pop(index)
                    if time.monotonic() - since < MAX_IDLE_SECONDS:
                        return connection
                    connection.close()
        return None

    def give(self, origin: Hashable, connection: HttpStream) -> None:
        with self._lock:
            self._kept.append((origin, connection, time.monotonic()))
            oldest = self._kept.pop(0)[1] if len(self._kept) > MAX_KEPT else None
        if oldest:
            oldest.close()

    def close(self) -> None:
        with self._lock:
            kept, self._kept = self._kept, []
        for _, connection, _ in kept:
            connection.close()
