"""HTTP/1.1 connection of one client: requests may be pipelined and are answered in order."""

import asyncio
import logging
from collections import deque
from typing import cast

import httptools

from runyard.serving.gateway.dispatch.request import Refusal
from runyard.serving.gateway.http.exchange import LARGE_ANSWER_BYTES, Exchange, Headers
from runyard.serving.gateway.http.port_state import PortState
from runyard.serving.gateway.http.response_head import CONTINUE
from runyard.serving.gateway.http.routes import Target

_SMALL_BYTES = LARGE_ANSWER_BYTES
"""A refused body up to this size is read to its end, so that the connection can be reused."""
_NOWHERE = Target(None, "", "")
_TOO_MANY = (
    b"HTTP/1.1 503 Service Unavailable\r\nServer: runyard\r\nConnection: close\r\nRetry-After: 1\r\n"
    b"Content-Type: application/json\r\nContent-Length: 40\r\n\r\n"
    b'{"message":"Too many connections here."}'
)
_log = logging.getLogger(__name__)


class HttpConnection(asyncio.Protocol):
    """The client may be slow, silent or hostile; `limits` of the port bound what it can cost."""

    def __init__(self, state: PortState) -> None:
        self._state = state
        self._transport = cast(asyncio.Transport, None)
        self._parser = httptools.HttpRequestParser(self)
        self._url, self._headers = b"", cast(Headers, [])
        self._head_bytes = self._fresh_bytes = 0
        self._arriving: Exchange | None = None
        """Exchange whose body is being received."""
        self._current: Exchange | None = None
        """Exchange that is answered next."""
        self._waiting: deque[Exchange] = deque()
        self._is_in_head = self._is_proceeding = self._is_upgrade = self._has_asked_upgrade = False
        self._is_reading = self._may_write = True
        self._unread = 0
        """Bytes of answers that the client did not read at once."""
        self._is_discarding = False
        """Whether all further input is discarded."""
        self._is_rest_refused = False
        """Whether the discarded input belongs to a refused request."""
        self._timeouts = ConnectionTimeouts(state)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        state = self._state
        if not state.connections.enter(self):
            state.dispatcher.requests.count(503)
            self._is_discarding = True
            self._transport.write(_TOO_MANY)
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._state.connections.leave(self)
        self._set_unread(0)
        self._is_discarding = True
        for exchange in (self._current, *self._waiting, self._arriving):
            if exchange is not None:
                exchange.drop()
        self._waiting.clear()
        self._current = self._arriving = None
        self._parser = cast(httptools.HttpRequestParser, None)  # breaks the reference cycle

    def data_received(self, data: bytes) -> None:
        if self._is_discarding:
            return
        self._timeouts.has_received = True
        self._fresh_bytes = len(data)
        if self._is_in_head:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._ignore_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserCallbackError as error:
            _log.error("a request could not be handled", exc_info=error)
            self._end_with(Refusal(500, "The gateway could not handle this request; its log says why."))
        except httptools.HttpParserError as error:
            self._end_with(Refusal(400, f"That is no HTTP/1.1 request: {error}."))
        if self._is_in_head and self._head_bytes > self._state.limits.head_bytes:
            self._end_with(self._head_too_large())

    def pause_writing(self) -> None:
        self._may_write = False
        self._set_unread(self._transport.get_write_buffer_size())
        self._update_reading()

    def resume_writing(self) -> None:
        self._may_write = True
        self._set_unread(0)
        self._proceed()

    def on_message_begin(self) -> None:
        self._url, self._headers = b"", []
        self._head_bytes = self._fresh_bytes
        self._is_in_head = True
        self._timeouts.begin()

    def on_url(self, part: bytes) -> None:
        self._url += part

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        if self._is_discarding:
            return
        exchange = self._arriving = self._new_exchange()
        fields = exchange.fields
        if b"upgrade" in fields:
            self._is_upgrade = self._parser.should_upgrade()
        if exchange.is_refused:
            if b"expect" in fields or _has_large_rest(exchange):
                self._refuse_rest(exchange)
        elif b"expect" in fields:
            self._send_continue()

    def on_body(self, chunk: bytes) -> None:
        exchange = self._arriving
        if exchange is None:
            return
        exchange.gather(chunk)
        if exchange.is_refused and exchange.received > _SMALL_BYTES:
            self._refuse_rest(exchange)

    def on_message_complete(self) -> None:
        exchange = self._arriving
        self._fresh_bytes = 0
        if exchange is None or self._is_upgrade:
            return
        self._arriving = None
        exchange.complete()
        if not exchange.keeps_alive:
            self._is_discarding = True
        if self._current is None and not self._waiting and self._may_write:
            self._current = exchange
            exchange.begin()
        else:
            self._waiting.append(exchange)
            self._update_reading()

    def write(self, exchange: Exchange, head: bytes, body: bytes) -> None:
        """Send the answer to the current exchange and start the next one."""
        if len(body) <= _SMALL_BYTES:
            self._transport.write(head + body)
        else:
            self._transport.writelines((head, body))
        self._current = None
        self._timeouts.begin()
        if not exchange.keeps_alive:
            self._close_after_answer()
        elif self._waiting or self._arriving is not None or not self._is_reading:
            self._proceed()
        elif self._state.is_closing:
            self._transport.close()

    def check_timeouts(self) -> None:
        """End what takes too long; called periodically."""
        timeouts, transport = self._timeouts, self._transport
        if timeouts.is_stalled(transport.get_write_buffer_size()):
            transport.abort()
        elif self._is_rest_refused and self._current is None and not self._waiting:
            if timeouts.is_over(self._state.limits.farewell_seconds):
                transport.abort()
        elif not self._is_reading:
            timeouts.begin()
        elif self._arriving is not None:
            if timeouts.body_is_late(self._arriving.received):
                self._end_with(Refusal(408, "The body of the request did not come in time."))
        elif self._is_in_head:
            if timeouts.is_over(self._state.limits.head_seconds):
                self._end_with(Refusal(408, "The head of the request did not come in time."))
        elif self.is_idle and timeouts.idled_out():
            transport.close()

    @property
    def is_idle(self) -> bool:
        """Between two requests."""
        return self._current is None and self._arriving is None and not self._waiting and not self._is_in_head

    def close(self) -> None:
        """Close at once when idle, else after the next answer."""
        if self.is_idle:
            self._transport.close()
        elif self._current is not None:
            self._current.keeps_alive = False

    def abort(self) -> None:
        self._transport.abort()

    def _set_unread(self, size: int) -> None:
        self._state.dispatcher.unsent.held += size - self._unread
        self._unread = size
        self._timeouts.set_unread(size)

    def _new_exchange(self) -> Exchange:
        state, parser = self._state, self._parser
        try:
            target = state.routes.find(self._url)
        except ValueError:
            target = _NOWHERE
        exchange = Exchange(self, state, parser.get_method().decode(), target, self._headers)
        exchange.keeps_alive = parser.should_keep_alive() and not state.is_closing
        limits = state.limits
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
        return size > self._state.limits.head_bytes

    def _head_too_large(self) -> Refusal:
        limits = self._state.limits
        return Refusal(
            431, f"The head of a request may have {limits.head_bytes} bytes and {limits.head_fields} fields at most."
        )

    def _send_continue(self) -> None:
        """Send 100 Continue to a client that expects it, once all requests before are answered."""
        exchange = self._arriving
        if exchange is None or self._current is not None or self._waiting or exchange.received:
            return
        if b"expect" in exchange.fields and not exchange.is_refused and not self._is_rest_refused:
            self._transport.write(CONTINUE)

    def _ignore_upgrade(self, rest: bytes) -> None:
        """Parse the request again without its Upgrade header, with the body that the parser left.

        Done once per connection; the answer to a second such request closes the connection.
        """
        self._is_upgrade, exchange = False, self._arriving
        self._arriving = None
        if exchange is None:
            return
        exchange.drop()
        left_out = (b"upgrade", b"connection", b"http2-settings")
        lines = [b"%b %b HTTP/1.1\r\n" % (self._parser.get_method(), self._url)]
        lines += [b"%b: %b\r\n" % pair for pair in self._headers if pair[0] not in left_out]
        if self._has_asked_upgrade:
            lines.append(b"Connection: close\r\n")
        self._has_asked_upgrade = True
        self._parser = httptools.HttpRequestParser(self)
        self.data_received(b"".join([*lines, b"\r\n", rest]))

    def _end_with(self, refusal: Refusal) -> None:
        """Answer with this and close: what follows cannot be parsed, or is not waited for."""
        if self._is_discarding:
            return
        exchange = self._arriving
        if exchange is None:
            exchange = Exchange(self, self._state, "POST", _NOWHERE, [])
        exchange.refuse(refusal)
        self._refuse_rest(exchange)

    def _refuse_rest(self, exchange: Exchange) -> None:
        self._arriving, self._is_in_head = None, False
        self._is_discarding = self._is_rest_refused = True
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
        self._send_continue()
        self._update_reading()

    def _update_reading(self) -> None:
        """Stop reading from a client that sends more than it reads."""
        allowed = self._is_rest_refused or (self._may_write and len(self._waiting) < self._state.limits.pipelined)
        if allowed != self._is_reading and not self._transport.is_closing():
            self._is_reading = allowed
            (self._transport.resume_reading if allowed else self._transport.pause_reading)()

    def _close_after_answer(self) -> None:
        for exchange in self._waiting:
            exchange.drop()
        self._waiting.clear()
        if not self._is_rest_refused:
            self._transport.close()
        elif self._transport.can_write_eof():
            # Closing now would reset the connection before the client, which still sends, has read the answer.
            self._transport.write_eof()


def _has_large_rest(exchange: Exchange) -> bool:
    return b"transfer-encoding" in exchange.fields or int(exchange.fields.get(b"content-length", 0)) > _SMALL_BYTES


class ConnectionTimeouts:
    """Timeouts of one connection, counted in ticks of its ConnectionSet: a request reads no clock and sets no timer."""

    def __init__(self, state: PortState) -> None:
        self._state = state
        self._since = state.connections.ticks
        self._silent_ticks = self._stalled_ticks = self._left = 0
        self._unread = self._unread_since = 0
        self.has_begun = False
        """Whether a request has ever started."""
        self.has_received = False
        """Whether any byte arrived since the last check."""

    def begin(self) -> None:
        """Restart the clock, for a request or for the wait for one."""
        self._since = self._state.connections.ticks
        self.has_begun = True

    def is_over(self, seconds: float) -> bool:
        return (self._state.connections.ticks - self._since) * self._state.limits.check_seconds >= seconds

    def idled_out(self) -> bool:
        limits = self._state.limits
        return self.is_over(limits.kept_seconds if self.has_begun else limits.head_seconds)

    def body_is_late(self, received: int) -> bool:
        """Call at every check while a body is arriving."""
        limits = self._state.limits
        self._silent_ticks = 0 if self.has_received else self._silent_ticks + 1
        self.has_received = False
        if self._silent_ticks * limits.check_seconds >= limits.silence_seconds:
            return True
        return self.is_over(limits.body_seconds + received / limits.slowest_bytes_per_second)

    def set_unread(self, size: int) -> None:
        """Bytes of answers that the client did not read at once; 0 when it has read all."""
        self._unread, self._unread_since = size, self._state.connections.ticks

    def is_stalled(self, left: int) -> bool:
        """Call at every check with the bytes of answers that the client has not read yet."""
        limits = self._state.limits
        if self._unread:
            seconds = (self._state.connections.ticks - self._unread_since) * limits.check_seconds
            if seconds >= limits.body_seconds + (self._unread - left) / limits.slowest_bytes_per_second:
                return True
        self._stalled_ticks = self._stalled_ticks + 1 if left and left == self._left else 0
        self._left = left
        return self._stalled_ticks * limits.check_seconds >= limits.silence_seconds
