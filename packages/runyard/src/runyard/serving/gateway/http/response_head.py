"""Status line and header lines of an answer."""

import itertools
import re
import secrets
import time
from collections.abc import Iterable
from email.utils import formatdate
from http import HTTPStatus

import orjson

JSON = b"application/json"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_PHRASES = {status.value: status.phrase for status in HTTPStatus}
_STATUS_LINES = {
    number: f"HTTP/1.1 {number} {_PHRASES.get(number, 'Status')}\r\nServer: runyard\r\n".encode()
    for number in range(200, 600)
}
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_GATEWAY_HEADERS = frozenset(
    {"connection", "content-length", "date", "keep-alive", "server", "te", "trailer", "transfer-encoding", "upgrade"}
)


def status_line(status: int) -> bytes:
    """Status line with the Server and Date headers. An unknown status becomes 500."""
    return _STATUS_LINES.get(status, _STATUS_LINES[500]) + _date.line()


def has_body(status: int) -> bool:
    return status not in (204, 304)


def message(text: str) -> bytes:
    return orjson.dumps({"message": text})


def field_lines(fields: Iterable[tuple[str, str]]) -> bytes:
    """Header lines that a worker may set; invalid ones are left out, so that a script cannot split the answer."""
    lines = [
        f"{name}: {value}\r\n".encode("latin-1")
        for name, value in fields
        if _NAME.fullmatch(name) and name.lower() not in _GATEWAY_HEADERS and _VALUE.fullmatch(value)
    ]
    return b"".join(lines)


class RequestIdSource:
    """Makes request ids that are unique across gateways: a random prefix and a counter, which is cheap."""

    def __init__(self) -> None:
        whole = secrets.token_hex(10)
        self._prefix = f"{whole[:8]}-{whole[8:12]}-{whole[12:16]}-{whole[16:20]}-".encode()
        self._numbers = itertools.count(1)

    def next(self) -> bytes:
        return b"%b%012x" % (self._prefix, next(self._numbers))


class _DateHeader:
    """Date header, formatted once a second."""

    def __init__(self) -> None:
        self._second, self._line = 0, b""

    def line(self) -> bytes:
        now = int(time.time())
        if now != self._second:
            self._second, self._line = now, f"Date: {formatdate(now, usegmt=True)}\r\n".encode()
        return self._line


_date = _DateHeader()
