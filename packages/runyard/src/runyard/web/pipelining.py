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
"""What the buffers of any two systems hold: a server that reads no further until its answers are taken is no trap."""
_BUFFER_BYTES = 512 * 1024
_MOST_REFUSAL_BYTES = 64 * 1024
_SILENCE_SECONDS = 5.0
_CONNECTIONS = 2
_HEADERS = "".join(f"{name}: {value}\r\n" for name, value in SAME_ALWAYS)


class Wish(NamedTuple):
    """A whole file that is asked for."""

    number: int
    address: Address
    size: int
    etag: str

    def request(self) -> bytes:
        address = self.address
        text = f"GET {address.target} HTTP/1.1\r\nHost: {address.authority}\r\n{_HEADERS}Range: bytes=0-{self.size - 1}"
        return f"{text}\r\n\r\n".encode("latin-1")


class _Ended(Exception):
    """The server will not answer the rest on this connection."""


class Pipeline:
    """Asks for several files before the first has come, which spares a wait and several system calls for each. httpcore
    sends one request at a time, so the answers are parsed here, by httptools.

    Servers need not like it: only those that were seen to keep a connection of HTTP/1.1 are asked so, no proxies, and
    an origin that breaks off or stays silent is not asked so again. What does not come so is left out.
    """

    def __init__(self, rules: NetworkRules) -> None:
        # Others can do without it, so it has little patience.
        self._network = Network(replace(rules, silence_seconds=min(_SILENCE_SECONDS, rules.silence_seconds)))
        self._pool = Pool()
        self._keeping: set[object] = set()
        self._unwilling: set[object] = set()

    def read(self, wishes: Sequence[Wish]) -> Iterator[tuple[int, memoryview]]:
        """Each file that came, with its number."""
        for origin, group in groupby(wishes, key=lambda wish: wish.address[:3]):
            some = list(group)
            if origin not in self._unwilling and self._network.proxy_of(some[0].address) is None:
                yield from self._read_from(origin, some)

    def close(self) -> None:
        self._pool.close()

    def _read_from(self, origin: tuple[str, str, int], wishes: list[Wish]) -> Iterator[tuple[int, memoryview]]:
        """A connection may end between two answers, as servers do after so many requests. Then the rest is asked for
        over another one."""
        for _ in range(_CONNECTIONS):
            stream = None
            try:
                stream = self._pool.take(origin) or self._network.connect(wishes[0].address)
                stream.acknowledges_at_once = True
                while wishes:
                    yield from self._read_some(origin, wishes, stream)
                self._pool.give(origin, stream)
                stream = None
            except _Ended:
                if wishes:
                    continue
            except (Broken, RunyardError):  # no connection; reading one file will tell why
                pass
            finally:
                if stream:
                    stream.close()
            return
        self._unwilling.add(origin)

    def _read_some(
        self, origin: tuple[str, str, int], wishes: list[Wish], stream: Stream
    ) -> Iterator[tuple[int, memoryview]]:
        """Takes those out of the wishes that were answered. _Ended when no more will be."""
        requests = self._asked_at_once(origin, wishes)
        answers = _Answers(wishes, len(requests))
        try:
            stream.write(b"".join(requests))
            stream.end_head()
            while answers.left:
                data = stream.read(_BUFFER_BYTES)
                answers.feed(data)
                yield from answers.taken()
        except Broken as error:
            raise _Ended from error
        self._keeping.add(origin)

    def _asked_at_once(self, origin: object, wishes: Sequence[Wish]) -> Sequence[bytes]:
        requests = [wishes[0].request()]
        room = _REQUESTS_BYTES - len(requests[0])
        for wish in wishes[1:] if origin in self._keeping else ():
            requests.append(wish.request())
            room -= len(requests[-1])
            if room < 0:
                return requests[:-1]
        return requests


class _Answers:
    """What a parser finds in the bytes of a connection: the answers to the first `left` of the wishes, in their order.
    Takes a wish out when the head of its answer has come."""

    def __init__(self, wishes: list[Wish], left: int) -> None:
        self.left = left
        self._wishes, self._came = wishes, list[tuple[int, memoryview]]()
        self._parser = HttpResponseParser(self)
        self._head_bytes, self._has_ended = 0, False
        self._wish: Wish | None = None

    def feed(self, data: bytes) -> None:
        """The files that came whole are `taken()` also where this is the connection's end."""
        self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, _Ended):
            self._has_ended = True
        self._has_ended |= not data or self._head_bytes > MAX_HEAD_BYTES + _BUFFER_BYTES

    def taken(self) -> Iterator[tuple[int, memoryview]]:
        """Those that came since. _Ended after them when no more will."""
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
        self._wish = self._wishes.pop(0)
        head = made_head(status, self._headers)
        self._is_right = _is_right(head, self._wish)
        has_end = head.is_chunked or head.length is not None or status in (204, 304)
        if not self._is_right and (not has_end or (head.length or 0) > _MOST_REFUSAL_BYTES):
            raise _Ended

    def on_body(self, data: bytes) -> None:
        self._head_bytes = 0
        self._size += len(data)
        self._parts.append(data if self._is_right else b"")
        if self._wish and self._size > (self._wish.size if self._is_right else _MOST_REFUSAL_BYTES):
            raise _Ended

    def on_message_complete(self) -> None:
        wish, self._wish, self._head_bytes = self._wish, None, 0
        if wish is None:
            return
        self.left -= 1
        if self._is_right and self._size == wish.size:
            whole = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
            self._came.append((wish.number, memoryview(whole)))
        self._has_ended |= not self._parser.should_keep_alive() or self._parser.get_http_version() != "1.1"


def _is_right(head: Head, wish: Wish) -> bool:
    try:
        _, size = placed(head, wish.address, 0, wish.size)
    except (Broken, RunyardError):
        return False
    return size is not None and size >= wish.size and wish.etag in ("", head.version(size))
