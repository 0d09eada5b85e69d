import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.serving.workers.frames import (
    LARGEST_FRAME,
    BrokenFrame,
    FrameKind,
    FrameReader,
    WorkerAnswer,
    WorkerRequest,
    decode_answers,
    encode,
    encode_requests,
)

ANSWERS = st.lists(
    st.builds(
        WorkerAnswer,
        st.integers(0, 2**32 - 1),
        st.integers(0, 2**16 - 1),
        st.integers(0, 2**32 - 1),
        st.binary(max_size=40),
        st.binary(max_size=200),
    ),
    max_size=5,
)


def payload_of(answers: list[WorkerAnswer]) -> bytes:
    """As a worker writes them."""
    parts = [struct.pack("!H", len(answers))]
    for number, status, microseconds, head, body in answers:
        parts.append(struct.pack("!IHIII", number, status, microseconds, len(head), len(body)) + head + body)
    return b"".join(parts)


@given(st.lists(ANSWERS, max_size=4), st.data())
def test_frames_come_whole_however_the_stream_is_cut(frames: list[list[WorkerAnswer]], data: st.DataObject) -> None:
    stream = b"".join(encode(FrameKind.ANSWERS, payload_of(answers)) for answers in frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    reader, found = FrameReader(), []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += [
            decode_answers(payload) for kind, payload in reader.feed(stream[start:end]) if kind == FrameKind.ANSWERS
        ]
    assert found == frames


@given(st.lists(st.tuples(st.integers(0, 2**32 - 1), st.binary(max_size=40), st.binary(max_size=200)), max_size=5))
def test_requests_are_one_frame_as_the_wire_has_it(given_requests: list[tuple[int, bytes, bytes]]) -> None:
    ((kind, payload),) = FrameReader().feed(b"".join(encode_requests([WorkerRequest(*one) for one in given_requests])))
    expected = struct.pack("!H", len(given_requests)) + b"".join(
        struct.pack("!III", number, len(head), len(body)) + head + body for number, head, body in given_requests
    )
    assert (kind, payload) == (FrameKind.REQUESTS, expected)


@given(ANSWERS.filter(bool), st.data())
def test_an_answer_frame_cut_short_or_too_long_is_refused(answers: list[WorkerAnswer], data: st.DataObject) -> None:
    payload = payload_of(answers)
    with pytest.raises(BrokenFrame):
        decode_answers(payload[: data.draw(st.integers(0, len(payload) - 1))])
    with pytest.raises(BrokenFrame):
        decode_answers(payload + b"x")


@pytest.mark.parametrize("size", [0, LARGEST_FRAME + 1])
def test_a_length_that_cannot_be_is_refused_before_it_is_read(size: int) -> None:
    with pytest.raises(BrokenFrame):
        list(FrameReader().feed(struct.pack("!IB", size, FrameKind.ANSWERS) + b"xx"))


def test_more_requests_than_a_frame_can_count_are_refused() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        encode_requests([WorkerRequest(1, b"", b"")] * (1 << 16))
