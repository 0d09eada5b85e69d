from functools import reduce
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from runyard.storage.sql.metric_points import Chunk, join_chunks, pack_points, unpack_steps, unpack_times, unpack_values

VALUES = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.text(),
    st.booleans(),
    st.none(),
    st.integers(2**63, 2**70),
)
STEPS = st.one_of(st.none(), st.integers(-(2**63) + 1, 2**63 - 1))
POINTS = st.lists(st.tuples(VALUES, STEPS, st.floats(allow_nan=False)), min_size=1, max_size=20)
NUMBERS = st.lists(st.tuples(st.one_of(st.integers(-9, 9), st.floats()), st.none(), st.just(0.0)), min_size=1)


def packed(points: list[tuple[Any, Any, float]]) -> Chunk:
    values, steps, at = zip(*points, strict=True)
    return pack_points(list(values), list(steps), list(at))


def unpacked(chunks: list[Chunk]) -> str:
    type_, values = unpack_values(chunks)
    return repr((type_, list(values), list(unpack_steps(chunks)), list(unpack_times(chunks))))


@given(st.lists(st.one_of(POINTS, NUMBERS), min_size=1, max_size=5))
def test_how_points_are_cut_into_chunks_makes_no_difference(batches):
    at_once = unpacked([packed([point for batch in batches for point in batch])])
    chunks = [packed(batch) for batch in batches]
    assert unpacked(chunks) == at_once
    assert unpacked([reduce(join_chunks, chunks)]) == at_once


@given(POINTS)
def test_steps_and_times_come_back(points):
    chunk = packed(points)
    assert list(unpack_steps([chunk])) == [step for _, step, _ in points]
    assert list(unpack_times([chunk])) == [at for _, _, at in points]


def test_numbers_take_eight_bytes_each_and_absent_steps_none():
    chunk = pack_points(list(range(1000)), [None] * 1000, [0.0] * 1000)
    assert (chunk.type, len(chunk.values), chunk.steps, len(chunk.at)) == ("i", 8000, None, 8000)
