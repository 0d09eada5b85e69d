import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.storage.sql.metric_points import NumberSummary, Score, summarize_batch

NUMBERS = st.one_of(st.floats(), st.integers(), st.just(10**400), st.text(max_size=2), st.booleans(), st.none())
BATCHES = st.lists(st.tuples(st.lists(NUMBERS, min_size=1, max_size=4), st.integers(0, 3)), min_size=1, max_size=6)


@pytest.mark.parametrize(
    ("values", "summary", "score"),
    [
        ([2, 1, 3], (3.0, 1.0, 3.0), (1, 3, 1.0, 3.0)),
        ([1.0, math.inf], (math.inf, 1.0, math.inf), (1, 2, 1.0, 1.0)),
        ([math.nan, -math.inf], (-math.inf, -math.inf, -math.inf), (1, 2, None, None)),
        ([1e308, 1e308], (1e308, 1e308, 1e308), (1, 2, 1e308, 1e308)),
        ([10**400, -(10**400), 2], (2.0, 2.0, 2.0), (1, 1, 2.0, 2.0)),
        (["2", True, None], (None, None, None), (None, None, None, None)),
    ],
)
def test_what_a_batch_is_summed_up_and_compared_by(values, summary, score):
    assert summarize_batch(values, 1) == (NumberSummary(*summary), Score(*score))


@given(BATCHES)
def test_how_points_are_cut_into_batches_changes_nothing(batches):
    at_once, one_by_one = Score(), Score()
    for values, rank in batches:
        at_once = at_once.then(summarize_batch(values, rank)[1])
        for value in values:
            one_by_one = one_by_one.then(summarize_batch([value], rank)[1])
    assert at_once == one_by_one


@given(BATCHES)
def test_a_score_is_of_the_lowest_rank_with_a_number(batches):
    total = Score()
    numbers: dict[int, list[float]] = {}
    for values, rank in batches:
        total = total.then(summarize_batch(values, rank)[1])
        found = [float(value) for value in values if type(value) in (int, float) and value != 10**400]
        if found:
            numbers.setdefault(rank, []).extend(found)
    assert (total.scored_rank is None) == (not numbers)
    if numbers:
        of_lowest = numbers[min(numbers)]
        finite = [number for number in of_lowest if math.isfinite(number)]
        assert (total.scored_rank, total.scored_count) == (min(numbers), len(of_lowest))
        assert (total.scored_minimum, total.scored_maximum) == (min(finite, default=None), max(finite, default=None))
