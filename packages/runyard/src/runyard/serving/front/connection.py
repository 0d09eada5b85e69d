"""HTTP/1.1 of one client: requests are answered in the order in which they came."""

import asyncio
import logging
from collections import deque
from typing import cast

import httptools

from runyard.serving.dispatch.request import Refusal
from runyard.serving.front.answers import CONTINUE
from runyard.serving.front.exchange import LARGE_ANSWER_BYTES, Exchange, Headers
from runyard.serving.front.patience import Patience
from runyard.serving.front.reception import Reception
from runyard.serving.front.routes import Target

_SMALL_BYTES = LARGE_ANSWER_BYTES
"""A refused body up to this size is read to its end, so that the connection can be kept."""
_NOWHERE = Target(None, "", "")
_TOO_MANY = (
    b"HTTP/1.1 503 Service Unavailable\r\nServer: runyard\r\nConnection: close\r\nRetry-After: 1\r\n"
    b"Content-Type: application/json\r\nContent-Length: 40\r\n\r\n"
    b'{"message":"Too many connections here."}'
)
_log = logging.getLogger(__name__)


class Connection(asyncio.Protocol):
    """Whoever is at the other end may be slow, silent or hostile: what it may cost is in the reception's limits."""

    def __init__(self, reception: Reception) -> None:
        self._reception = reception
        self._transport = cast(asyncio.Transport, None)
        self._parser = httptools.HttpRequestParser(self)
        self._url, self._headers = b"", cast(Headers, [])
        self._head_bytes = self._fresh_bytes = 0
        self._arriving: Exchange | None = None
        """Whose body is coming."""
        self._current: Exchange | None = None
        """Whose answer is next."""
        self._waiting: deque[Exchange] = deque()
        self._is_in_head = self._is_proceeding = self._is_upgrade = self._has_wished = False
        self._is_reading = self._may_write = True
        self._owed = 0
        """Bytes of answers that the client did not take at once."""
        self._is_deaf = False
        """What still comes is thrown away."""
        self._is_cut = False
        """What is thrown away belongs to a refused request."""
        self._patience = Patience(reception)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        reception = self._reception
        if not reception.crowd.enter(self):
            reception.dispatcher.requests.count(503)
            self._is_deaf = True
            self._transport.write(_TOO_MANY)
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._reception.crowd.leave(self)
        self._owe(0)
        self._is_deaf = True
        for exchange in (self._current, *self._waiting, self._arriving):
            if exchange is not None:
                exchange.drop()
        self._waiting.clear()
        self._current = self._arriving = None
        self._parser = cast(httptools.HttpRequestParser, None)  # they hold each other

    def data_received(self, data: bytes) -> None:
        if self._is_deaf:
            return
        self._patience.came = True
        self._fresh_bytes = len(data)
        if self._is_in_head:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._stay_with_this_protocol(data[upgrade.args[0] :])
        except httptools.HttpParserCallbackError as error:
            _log.error("a request could not be handled", exc_info=error)
            self._end_with(Refusal(500, "The gateway could not handle this request; its log says why."))
        except httptools.HttpParserError as error:
            self._end_with(Refusal(400, f"That is no HTTP/1.1 request: {error}."))
        if self._is_in_head and self._head_bytes > self._reception.limits.head_bytes:
            self._end_with(self._head_too_large())

    def pause_writing(self) -> None:
        self._may_write = False
        self._owe(self._transport.get_write_buffer_size())
        self._read_as_allowed()

    def resume_writing(self) -> None:
        self._may_write = True
        self._owe(0)
        self._proceed()

    def on_message_begin(self) -> None:
        self._url, self._headers = b"", []
        self._head_bytes = self._fresh_bytes
        self._is_in_head = True
        self._patience.begin()

    def on_url(self, part: bytes) -> None:
        self._url += part

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        if self._is_deaf:
            return
        exchange = self._arriving = self._opened()
        fields = exchange.fields
        if b"upgrade" in fields:
            self._is_upgrade = self._parser.should_upgrade()
        if exchange.is_refused:
            if b"expect" in fields or _rest_is_large(exchange):
                self._cut(exchange)
        elif b"expect" in fields:
            self._invite()

    def on_body(self, chunk: bytes) -> None:
        exchange = self._arriving
        if exchange is None:
            return
        exchange.gather(chunk)
        if exchange.is_refused and exchange.received > _SMALL_BYTES:
            self._cut(exchange)

    def on_message_complete(self) -> None:
        exchange = self._arriving
        self._fresh_bytes = 0
        if exchange is None or self._is_upgrade:
            return
        self._arriving = None
        exchange.complete()
        if not exchange.keeps_alive:
            self._is_deaf = True
        if self._current is None and not self._waiting and self._may_write:
            self._current = exchange
            exchange.begin()
        else:
            self._waiting.append(exchange)
            self._read_as_allowed()

    def write(self, exchange: Exchange, head: bytes, body: bytes) -> None:
        """The answer to the current exchange; the next one is begun."""
        if len(body) <= _SMALL_BYTES:
            self._transport.write(head + body)
        else:
            self._transport.writelines((head, body))
        self._current = None
        self._patience.begin()
        if not exchange.keeps_alive:
            self._leave()
        elif self._waiting or self._arriving is not None or not self._is_reading:
            self._proceed()
        elif self._reception.is_closing:
            self._transport.close()

    def look(self) -> None:
        """Called once in a while: end what takes too long."""
        patience, transport = self._patience, self._transport
        if patience.is_stalled(transport.get_write_buffer_size()):
            transport.abort()
        elif self._is_cut and self._current is None and not self._waiting:
            if patience.is_over(self._reception.limits.farewell_seconds):
                transport.abort()
        elif not self._is_reading:
            patience.begin()
        elif self._arriving is not None:
            if patience.body_is_late(self._arriving.received):
                self._end_with(Refusal(408, "The body of the request did not come in time."))
        elif self._is_in_head:
            if patience.is_over(self._reception.limits.head_seconds):
                self._end_with(Refusal(408, "The head of the request did not come in time."))
        elif self.is_idle and patience.idled_out():
            transport.close()

    @property
    def is_idle(self) -> bool:
        """Between two requests."""
        return self._current is None and self._arriving is None and not self._waiting and not self._is_in_head

    def close(self) -> None:
        """At once when idle; else the answer that is next is the last."""
        if self.is_idle:
            self._transport.close()
        elif self._current is not None:
            self._current.keeps_alive = False

    def abort(self) -> None:
        self._transport.abort()

    def _owe(self, size: int) -> None:
        self._reception.dispatcher.unsent.held += size - self._owed
        self._owed = size
        self._patience.owe(size)

    def _opened(self) -> Exchange:
        reception, parser = self._reception, self._parser
        try:
            target = reception.routes.find(self._url)
        except ValueError:
            target = _NOWHERE
        exchange = Exchange(self, reception, parser.get_method().decode(), target, self._headers)
        exchange.keeps_alive = parser.should_keep_alive() and not reception.is_closing
        limits = reception.limits
        if len(self._headers) > limits.head_fields or (self._head_bytes > limits.head_bytes and self._is_head_large()):
            exchange.refuse(self._head_too_large())
            exchange.keeps_alive = False
        elif target is _NOWHERE:
            exchange.refuse(Refusal(400, "The request line has no path."))
        else:
            exchange.admit()
        return exchange

    def _is_head_large(self) -> bool:
        size = len(self._url) + sum(len(name) + len(value) + 4 for name, value in self._headers)
        return size > self._reception.limits.head_bytes

    def _head_too_large(self) -> Refusal:
        limits = self._reception.limits
        return Refusal(
            431, f"The head of a request may have {limits.head_bytes} bytes and {limits.head_fields} fields at most."
        )

    def _invite(self) -> None:
        """Tell who asked whether to go on that the body is welcome, once all before it is answered."""
        exchange = self._arriving
        if exchange is None or self._current is not None or self._waiting or exchange.received:
            return
        if b"expect" in exchange.fields and not exchange.is_refused and not self._is_cut:
            self._transport.write(CONTINUE)

    def _stay_with_this_protocol(self, rest: bytes) -> None:
        """Nothing is upgraded: the request is read again as if it had not asked, with the body that the parser left.

        A client wishes for that once; the second such request is the last one that it gets an answer to.
        """
        self._is_upgrade, exchange = False, self._arriving
        self._arriving = None
        if exchange is None:
            return
        exchange.drop()
        left_out = (b"upgrade", b"connection", b"http2-settings")
        lines = [b"%b %b HTTP/1.1\r\n" % (self._parser.get_method(), self._url)]
        lines += [b"%b: %b\r\n" % pair for pair in self._headers if pair[0] not in left_out]
        if self._has_wished:
            lines.append(b"Connection: close\r\n")
        self._has_wished = True
        self._parser = httptools.HttpRequestParser(self)
        self.data_received(b"".join([*lines, b"\r\n", rest]))

    def _end_with(self, refusal: Refusal) -> None:
        """This is the last answer: what comes after it cannot be understood, or is not waited for."""
        if self._is_deaf:
            return
        exchange = self._arriving
        if exchange is None:
            exchange = Exchange(self, self._reception, "POST", _NOWHERE, [])
        exchange.refuse(refusal)
        self._cut(exchange)

    def _cut(self, exchange: Exchange) -> None:
        self._arriving, self._is_in_head = None, False
        self._is_deaf = self._is_cut = True
        exchange.keeps_alive = False
        self._waiting.append(exchange)
        self._proceed()

    def _proceed(self) -> None:
        if self._is_proceeding:
            return
        self._is_proceeding = True
        while self._waiting and self._current is None and self._may_write:
            self._current = self._waiting.popleft()
            self._current.begin()
        self._is_proceeding = False
        self._invite()
        self._read_as_allowed()

    def _read_as_allowed(self) -> None:
        """A client that sends more than it takes back is made to wait."""
        allowed = self._is_cut or (self._may_write and len(self._waiting) < self._reception.limits.pipelined)
        if allowed != self._is_reading and not self._transport.is_closing():
            self._is_reading = allowed
            (self._transport.resume_reading if allowed else self._transport.pause_reading)()

    def _leave(self) -> None:
        for exchange in self._waiting:
            exchange.drop()
        self._waiting.clear()
        if not self._is_cut:
            self._transport.close()
        elif self._transport.can_write_eof():
            # To close now would reset the connection while the client sends, before it has read the answer.
            self._transport.write_eof()


def _rest_is_large(exchange: Exchange) -> bool:
    return b"transfer-encoding" in exchange.fields or int(exchange.fields.get(b"content-length", 0)) > _SMALL_BYTES
