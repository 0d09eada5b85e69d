import math

import pytest

from runyard.core.records.runs import RunId
from runyard.core.records.sweeps import Goal
from runyard.runs.kinds.sweep.early_stopping.histories import Histories, History


@pytest.mark.parametrize(("goal", "bests"), [(Goal.MAXIMIZE, [2, 2, 5]), (Goal.MINIMIZE, [2, 1, 1])])
def test_the_best_of_each_interval_is_kept(goal: Goal, bests: list[float]) -> None:
    history = History(goal)
    for value in (2, 1, 5):
        history.append(value)
    assert [history.best_at(interval) for interval in (1, 2, 3)] == bests
    assert history.best == bests[-1]
    assert len(history) == 3


def test_a_mean_is_that_of_the_numbers_as_they_are_written() -> None:
    history = History(Goal.MAXIMIZE)
    for value in (0.1, 0.1, 0.1, 0.7):
        history.append(value)
    assert [history.mean_at(interval) for interval in (1, 2, 3, 4)] == [0.1, 0.1, 0.1, 0.25]


@pytest.mark.parametrize("nothing", [math.nan, math.inf, -math.inf, 10**400])
@pytest.mark.parametrize("goal", list(Goal))
def test_what_is_no_finite_number_is_an_interval_and_nothing_else(goal: Goal, nothing: float) -> None:
    history = History(goal)
    for value in (nothing, 3.0, nothing):
        history.append(value)
    assert [history.best_at(interval) for interval in (1, 2, 3)] == [None, 3.0, 3.0]
    assert [history.mean_at(interval) for interval in (1, 2, 3)] == [None, 3.0, 3.0]


def test_the_largest_numbers_have_a_mean() -> None:
    history = History(Goal.MAXIMIZE)
    for _ in range(3):
        history.append(1.7e308)
    assert history.mean_at(3) == 1.7e308


def test_an_empty_history_has_no_best() -> None:
    assert History(Goal.MAXIMIZE).best is None


def test_trials_of_this_sweep_and_of_others_stand_side_by_side() -> None:
    histories = Histories(Goal.MINIMIZE)
    assert [histories.append(0, 3.0), histories.append(RunId("HD_1_0"), 1.0), histories.append(0, 2.0)] == [1, 1, 2]
    assert list(histories) == [0, "HD_1_0"]
    assert len(histories) == 2
    assert [histories.value(standing) for standing in histories.best_scores(1)] == [3.0, 1.0]
    assert histories.get(1) is None


def test_standings_follow_what_is_logged_later() -> None:
    histories = Histories(Goal.MAXIMIZE)
    histories.append(0, 0.5)
    assert list(histories.best_scores(1)) == list(histories.mean_scores(1)) == [0.5]
    histories.append(1, 0.7)
    histories.append(2, math.nan)
    assert list(histories.best_scores(1)) == list(histories.mean_scores(1)) == [-math.inf, 0.5, 0.7]


def test_a_trial_that_is_dropped_stands_nowhere() -> None:
    histories = Histories(Goal.MAXIMIZE)
    for trial in (0, 1):
        histories.append(trial, 0.5 + trial)
    assert len(histories.best_scores(1)) == 2
    histories.drop(1)
    histories.drop(7)
    assert list(histories.best_scores(1)) == [0.5]
    assert histories.append(1, 0.6) == 1
