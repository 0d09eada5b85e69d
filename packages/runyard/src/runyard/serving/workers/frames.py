"""Frames between the gateway and a worker; docs/wire.md has the format."""

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

LARGEST_FRAME = 1 << 30
_PREFIX = struct.Struct("!IB")
_COUNT = struct.Struct("!H")
_REQUEST = struct.Struct("!III")
_ANSWER = struct.Struct("!IHIII")
MOST_IN_A_FRAME = 0xFFFF


class FrameKind:
    """Type byte of a frame."""

    START, READY, FAILED, REQUESTS, ANSWERS = b"SHFRA"


class WorkerRequest(NamedTuple):
    id: int
    head: bytes
    """Empty for a plain POST to the scoring path."""
    body: bytes


class WorkerAnswer(NamedTuple):
    id: int
    status: int
    microseconds: int
    """Time spent in the scoring script."""
    head: bytes
    """Empty means application/json."""
    body: bytes


class BrokenFrame(Exception):
    """Received bytes are not a valid frame; the stream cannot be read further."""


def encode(kind: int, payload: bytes) -> bytes:
    return _PREFIX.pack(len(payload) + 1, kind) + payload


def encode_requests(requests: Sequence[WorkerRequest]) -> list[bytes]:
    """One frame as a list of pieces, so that large bodies are not copied. Raises ValueError when it is too large."""
    size, pieces = 1 + _COUNT.size, [b""]
    pack = _REQUEST.pack
    for number, head, body in requests:
        size += _REQUEST.size + len(head) + len(body)
        pieces.append(pack(number, len(head), len(body)) + head)
        pieces.append(body)
    if size > LARGEST_FRAME or len(requests) > MOST_IN_A_FRAME:
        raise ValueError(f"{len(requests)} requests with {size} bytes do not fit into one frame")
    pieces[0] = _PREFIX.pack(size, FrameKind.REQUESTS) + _COUNT.pack(len(requests))
    return pieces


def decode_answers(payload: bytes) -> list[WorkerAnswer]:
    """Raises BrokenFrame when the lengths do not match the bytes."""
    try:
        (count,) = _COUNT.unpack_from(payload)
        answers, at = [], _COUNT.size
        for _ in range(count):
            number, status, microseconds, head_size, body_size = _ANSWER.unpack_from(payload, at)
            body_at = at + _ANSWER.size + head_size
            head = payload[at + _ANSWER.size : body_at]
            at = body_at + body_size
            answers.append(WorkerAnswer(number, status, microseconds, head, payload[body_at:at]))
    except struct.error as error:
        raise BrokenFrame(f"an answer frame is too short: {error}") from error
    if at != len(payload):
        raise BrokenFrame(f"an answer frame says {at} bytes and has {len(payload)}")
    return answers


class FrameReader:
    """Splits a byte stream into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._wanted = _PREFIX.size

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield kind and payload of each complete frame. Raises BrokenFrame."""
        if not self._buffer and len(data) >= _PREFIX.size:
            size, kind = _PREFIX.unpack_from(data)
            if size + 4 == len(data):  # the usual case: one frame in one piece
                yield kind, data[_PREFIX.size :]
                return
        self._buffer += data
        at = 0
        while len(self._buffer) - at >= self._wanted:
            size, kind = _PREFIX.unpack_from(self._buffer, at)
            if not 1 <= size <= LARGEST_FRAME:
                raise BrokenFrame(f"a frame of {size} bytes")
            end = at + 4 + size
            if len(self._buffer) < end:
                self._wanted = end - at
                break
            yield kind, bytes(self._buffer[at + _PREFIX.size : end])
            at, self._wanted = end, _PREFIX.size
        del self._buffer[:at]
