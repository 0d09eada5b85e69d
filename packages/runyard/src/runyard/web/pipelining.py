from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from runyard.errors import RunyardError
from runyard.model.data import NetworkRules
from runyard.web.addresses import Address
from runyard.web.answers import Head
from runyard.web.bodies import Body, body_of
from runyard.web.client import Client, request_of
from runyard.web.connections import Connection
from runyard.web.parts import placed
from runyard.web.troubles import Broken

_REQUESTS_BYTES = 32 * 1024
"""What the buffers of any two systems hold: a server that reads no further until its answers are taken is no trap."""
_BUFFER_BYTES = 512 * 1024
_MOST_REFUSAL_BYTES = 64 * 1024
_SILENCE_SECONDS = 5.0
_CONNECTIONS = 2


class Wish(NamedTuple):
    """A whole file that is asked for."""

    number: int
    address: Address
    size: int
    etag: str

    def request(self) -> bytes:
        return request_of("GET", self.address, self.address.target, f"Range: bytes=0-{self.size - 1}\r\n")


class _Ended(Exception):
    """The server will not answer the rest on this connection."""


class Pipeline:
    """Asks for several files before the first has come, which spares a wait and several system calls for each.

    Servers need not like it: only those that were seen to keep a connection of HTTP/1.1 are asked so, no proxies, and
    an origin that breaks off or stays silent is not asked so again. What does not come so is left out.
    """

    def __init__(self, rules: NetworkRules) -> None:
        # Others can do without it, so it has little patience.
        self._client = Client(replace(rules, silence_seconds=min(_SILENCE_SECONDS, rules.silence_seconds)))
        self._keeping: set[object] = set()
        self._unwilling: set[object] = set()

    def read(self, wishes: Sequence[Wish]) -> Iterator[tuple[int, memoryview]]:
        """Each file that came, with its number."""
        for origin, group in groupby(wishes, key=lambda wish: wish.address[:3]):
            some = list(group)
            if origin not in self._unwilling and self._client.proxy_of(some[0].address) is None:
                yield from self._read_from(origin, some)

    def close(self) -> None:
        self._client.close()

    def _read_from(self, origin: object, wishes: list[Wish]) -> Iterator[tuple[int, memoryview]]:
        """A connection may end between two answers, as servers do after so many requests. Then the rest is asked for
        over another one."""
        for _ in range(_CONNECTIONS):
            try:
                with self._client.connected(wishes[0].address) as connection:
                    connection.expect_many(_BUFFER_BYTES)
                    while wishes:
                        yield from self._read_some(origin, wishes, connection)
            except _Ended:
                if wishes:
                    continue
            except (Broken, RunyardError):  # no connection; reading one file will tell why
                pass
            return
        self._unwilling.add(origin)

    def _read_some(
        self, origin: object, wishes: list[Wish], connection: Connection
    ) -> Iterator[tuple[int, memoryview]]:
        """Takes those out of the wishes that were answered. _Ended when no more will be."""
        asked = self._asked_at_once(origin, wishes)
        try:
            connection.send(b"".join(asked))
            for _ in asked:
                head = connection.head()
                wish = wishes.pop(0)
                body = body_of(head, "GET", connection)
                data = _taken(head, body, wish)
                if data is not None:
                    yield wish.number, data
                if not (body.is_finished and head.keeps_alive and head.is_http_11):
                    raise _Ended
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


def _taken(head: Head, body: Body, wish: Wish) -> memoryview | None:
    """The file, if this is it, as it was wished for; else the body is passed over, as far as is worth it."""
    if _is_right(head, wish):
        return body.take(wish.size)
    if head.is_chunked or (head.length is not None and head.length <= _MOST_REFUSAL_BYTES):
        body.fill(memoryview(bytearray(_MOST_REFUSAL_BYTES)))
    return None


def _is_right(head: Head, wish: Wish) -> bool:
    try:
        _, size = placed(head, wish.address, 0, wish.size)
    except (Broken, RunyardError):
        return False
    return size is not None and size >= wish.size and wish.etag in ("", head.version(size))
