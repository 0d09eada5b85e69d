import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runyard.core.records.runs import RunId, RunStatus
from runyard.core.records.sweeps import Goal, RankedTrial
from runyard.runs.kinds.sweep.chart import MOST_COLUMNS, ChartColumn, share_of, sweep_chart


def trials(*bests: float | None) -> list[RankedTrial]:
    return [RankedTrial(RunId(f"HD_x_{n}"), n, "{}", RunStatus.COMPLETED, best, 1) for n, best in enumerate(bests)]


def test_each_trial_is_a_column_of_its_own_while_there_is_room() -> None:
    found = sweep_chart(trials(3.0, None, 5.0, 4.0), Goal.MAXIMIZE)
    assert found.columns == [
        ChartColumn(0, 0, 3.0, 3.0, 3.0),
        ChartColumn(1, 1, None, None, 3.0),
        ChartColumn(2, 2, 5.0, 5.0, 5.0),
        ChartColumn(3, 3, 4.0, 4.0, 5.0),
    ]
    assert found.range == (3.0, 5.0)


def test_the_best_of_a_minimized_metric_goes_down() -> None:
    found = sweep_chart(trials(3.0, 5.0, 2.0), Goal.MINIMIZE)
    assert [column.best for column in found.columns] == [3.0, 3.0, 2.0]


def test_trials_come_in_the_order_of_sampling_however_they_are_ranked() -> None:
    ranked = sorted(trials(1.0, 9.0, 4.0), key=lambda trial: -(trial.best or 0))
    assert [column.first for column in sweep_chart(ranked, Goal.MAXIMIZE).columns] == [0, 1, 2]


def test_ten_thousand_trials_share_columns_and_none_is_lost() -> None:
    found = sweep_chart(trials(*(float(n % 100) for n in range(10_000))), Goal.MAXIMIZE)
    assert len(found.columns) <= MOST_COLUMNS
    assert (found.columns[0].first, found.columns[-1].last) == (0, 9_999)
    assert all(one.last + 1 == other.first for one, other in zip(found.columns, found.columns[1:], strict=False))
    assert found.columns[0].high == 83.0
    assert found.columns[-1].best == 99.0


def test_trials_that_have_not_begun_take_no_room() -> None:
    assert len(sweep_chart(trials(1.0, None, 2.0, *[None] * 500), Goal.MINIMIZE).columns) == 3


@pytest.mark.parametrize("bests", [(), (None, None)])
def test_without_a_number_there_is_nothing_to_draw(bests: tuple[None, ...]) -> None:
    found = sweep_chart(trials(*bests), Goal.MAXIMIZE)
    assert (found.columns, found.range) == ([], None)


def test_one_that_went_astray_does_not_flatten_the_others() -> None:
    losses = [0.5 + n / 100 for n in range(19)]
    assert sweep_chart(trials(*losses, 1e30), Goal.MINIMIZE).range == (0.5, losses[17])
    assert sweep_chart(trials(*(-loss for loss in losses), -1e30), Goal.MAXIMIZE).range == (-losses[17], -0.5)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=300), st.sampled_from(Goal))
def test_every_number_has_a_place_between_the_ends(values: list[float], goal: Goal) -> None:
    found = sweep_chart(trials(*values), goal)
    assert found.range is not None
    low, high = found.range
    assert found.columns[-1].best == (max(values) if goal is Goal.MAXIMIZE else min(values))
    shares = [share_of(value, low, high) for value in values]
    assert all(math.isfinite(share) and 0 <= share <= 1 for share in shares)
