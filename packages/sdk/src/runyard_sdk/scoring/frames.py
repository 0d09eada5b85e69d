"""Frames between the gateway and a worker (docs/wire.md): length (4), kind (1), payload."""
import json
import struct

_LENGTH = struct.Struct(">I")
_COUNT = struct.Struct(">H")
_REQUEST = struct.Struct(">III")
_ANSWER = struct.Struct(">IHIII")
_ONE_ANSWER = struct.Struct(">IcHIHIII")
_FIXED_OF_ONE = 1 + _COUNT.size + _ANSWER.size
_USUAL_BUFFER = 1 << 16
_MOST_TOGETHER = 64 << 20
_LONGEST_MICROSECONDS = (1 << 32) - 1


class Request(object):
    """A request: `body` is bytes, `head` None or {"method", "path", "query", "headers": [[name, value]]}."""

    __slots__ = ("body", "head", "id")

    def __init__(self, body, head=None, id=0):
        self.body, self.head, self.id = body, head, id


class FrameReader(object):
    """Reads frames from a blocking socket. A payload is valid until the next `read`."""

    def __init__(self, sock):
        self._sock = sock
        self._begin = self._end = 0
        self._resize(_USUAL_BUFFER)

    def read(self):
        """(kind, payload) of the next frame; None once the other side has closed."""
        if not self._have(_LENGTH.size):
            return None
        length, = _LENGTH.unpack_from(self._view, self._begin)
        self._begin += _LENGTH.size
        if not self._have(length):
            return None
        begin = self._begin
        self._begin = begin + length
        return bytes(self._view[begin:begin + 1]), self._view[begin + 1:begin + length]

    def _have(self, wanted):
        """Read until so many unread bytes are buffered; False at the end of the stream."""
        have = self._end - self._begin
        if have >= wanted:
            return True
        if not have:
            self._begin = self._end = 0
        if len(self._view) - self._begin < wanted or (not have and len(self._view) > _USUAL_BUFFER):
            self._resize(max(wanted, _USUAL_BUFFER))
        while self._end - self._begin < wanted:
            got = self._sock.recv_into(self._view[self._end:])
            if not got:
                return False
            self._end += got
        return True

    def _resize(self, size):
        """New buffer with the unread bytes at its front: a payload that was handed out keeps the old one."""
        unread = bytes(self._view[self._begin:self._end]) if self._end else b""
        self._view = memoryview(bytearray(size))
        self._view[:len(unread)] = unread
        self._begin, self._end = 0, len(unread)


def decode_requests(payload):
    """Requests of an `R` frame."""
    count, = _COUNT.unpack_from(payload, 0)
    at, requests = _COUNT.size, []
    for _ in range(count):
        id, head_length, body_length = _REQUEST.unpack_from(payload, at)
        at += _REQUEST.size
        head = json.loads(str(payload[at:at + head_length], "utf-8")) if head_length else None
        at += head_length
        requests.append(Request(bytes(payload[at:at + body_length]), head, id))
        at += body_length
    return requests


def encode_json(kind, value):
    """Frame of a kind with JSON payload."""
    text = json.dumps(value).encode("utf-8")
    return _LENGTH.pack(1 + len(text)) + kind + text


def encode_answers(answered):
    """`A` frame of [(id, (status, headers, body), microseconds)]; large answers get a frame each."""
    if len(answered) == 1 or sum(len(answer[2]) for _, answer, _ in answered) > _MOST_TOGETHER:
        return b"".join([_encode_one(*one) for one in answered])
    parts = []
    for id, (status, headers, body), microseconds in answered:
        head = _encode_head(headers)
        parts += (_ANSWER.pack(id, status, min(microseconds, _LONGEST_MICROSECONDS), len(head), len(body)), head, body)
    length = 1 + _COUNT.size + sum(map(len, parts))
    return b"".join([_LENGTH.pack(length), b"A", _COUNT.pack(len(answered))] + parts)


def _encode_one(id, answer, microseconds):
    status, headers, body = answer
    head = _encode_head(headers)
    fixed = _ONE_ANSWER.pack(_FIXED_OF_ONE + len(head) + len(body), b"A", 1, id, status,
                             min(microseconds, _LONGEST_MICROSECONDS), len(head), len(body))
    return fixed + head + body


def _encode_head(headers):
    return json.dumps({"headers": headers}).encode("utf-8") if headers else b""
