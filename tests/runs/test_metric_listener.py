import math
import threading
import time

import pytest

from runyard.core.principal import OWNER
from runyard.core.records.runs import RunId, RunRecord, RunStatus
from runyard.runs.history.journals import Delivered, Journals
from runyard.testing.records import a_run
from tests.grants import access_to
from tests.runs.sweep_parts import BANDIT, METRIC, SWEEP, SweepYard

_LARGEST = str(10**400)


def test_a_child_that_falls_behind_is_stopped_with_the_reason_wherever_users_look(yard: SweepYard) -> None:
    yard.submit()
    good, bad = yard.children(2)
    yard.log(good, 0.9)
    yard.log(bad, 0.5)
    stop = yard.sweep().trials[1].stop
    assert stop is not None
    assert (stop.policy, stop.interval, stop.value) == ("Bandit", 1, 0.5)
    assert yard.stores.trials.list(SWEEP)[1].stop == stop
    assert yard.canceled == [bad]
    reason = f"Stopped by the {stop.text}"
    assert yard.run(bad).warnings == (reason,)
    assert [event.text for event in yard.decisions(bad)] == [reason]
    assert f"CONTROLLER][INFO]{bad} stopped: {stop.text}" in yard.lines()
    assert not any(f"{good} stopped" in line for line in yard.lines())


def test_a_child_that_ended_before_its_stop_says_that_the_stop_was_too_late(yard: SweepYard) -> None:
    yard.submit()
    good, quick, quicker = yard.children(3)
    yard.log(good, 0.9)
    yard.log(quick, 0.5)
    yard.log(quicker, 0.5)
    yard.sweep().note_ended(yard.end(quick))
    yard.end(quicker)
    yard.restart()  # killed before that end was noted
    yard.sweep()
    for child in (quick, quicker):
        decided, late = yard.run(child).warnings
        assert decided.startswith("Stopped by the Bandit policy")
        assert late == "The stop came too late: the run had reached its end by itself."
        assert [event.text for event in yard.decisions(child)] == [decided, late]


def test_what_came_from_a_child_is_stopped_with_it(yard: SweepYard) -> None:
    yard.submit()
    good, bad = yard.children(2)
    yard.stores.runs.create(a_run("below", RunStatus.RUNNING, parent_id=bad))
    yard.stores.runs.create(a_run("further", RunStatus.QUEUED, parent_id=RunId("below")))
    yard.stores.runs.create(a_run("ended", RunStatus.COMPLETED, parent_id=bad))
    yard.log(good, 0.9)
    yard.log(bad, 0.5)
    assert yard.canceled == [bad, "below", "further"]


def test_only_the_child_that_logged_is_judged(yard: SweepYard) -> None:
    yard.submit()
    slow, quick = yard.children(2)
    yard.log(slow, 0.5)
    yard.log(quick, 0.9)
    assert yard.canceled == []
    yard.log(slow, 0.5)  # nobody else has come to the second interval
    assert yard.canceled == []
    yard.log(quick, 0.9)
    yard.log(slow, 0.5)
    yard.log(quick, 0.9, 0.9)
    yard.log(slow, 0.5)
    assert yard.canceled == [slow]
    assert [trial.stop.interval for trial in yard.sweep().trials if trial.stop] == [4]


def test_each_number_of_a_batch_is_judged_by_itself(yard: SweepYard) -> None:
    yard.submit()
    good, bad = yard.children(2)
    yard.log(good, 0.5, 0.9, 0.9)
    yard.log(bad, 0.5, 0.5, 0.99)
    [stop] = [trial.stop for trial in yard.sweep().trials if trial.stop]
    assert (stop.interval, stop.value) == (2, 0.5)


def test_what_was_delivered_twice_is_one_interval(yard: SweepYard) -> None:
    yard.submit(policy={"name": "Bandit", "properties": {"slack_factor": 0.1, "evaluation_interval": 2}})
    good, bad = yard.children(2)
    yard.log(good, 0.9, 0.9)
    line = yard.line(METRIC, 0.5).encode()
    for _ in range(3):
        yard.journals.append(OWNER, bad, f"{bad}~0-1-x", 0, line)
    assert yard.canceled == []
    yard.journals.append(OWNER, bad, f"{bad}~0-1-x", len(line), line)
    assert yard.canceled == [bad]


def test_stretches_count_once_in_whichever_order_they_are_heard_of(yard: SweepYard) -> None:
    yard.submit()
    [child] = yard.children(1)
    told: list[tuple[RunRecord, Delivered]] = []
    journals = Journals(
        yard.stores.runs, yard.stores.metrics, yard.clock, access_to(yard.stores), lambda *heard: told.append(heard)
    )
    lines = [yard.line(METRIC, value).encode() for value in (0.1, 0.2, 0.3)]
    for place in range(3):
        journals.append(OWNER, child, f"{child}~0-1-x", len(b"".join(lines[:place])), lines[place])
    first, second, third = told
    for heard in (second, first, second, third, third, first):  # several threads, and one that asked again
        yard.live.logged(*heard)
    yard.sweep().note_ended(yard.end(child))
    assert f"CONTROLLER][INFO]{child} ended: Completed, best 0.3 of 3." in yard.lines()


@pytest.mark.parametrize("is_restarted", [False, True])
def test_another_rank_that_is_quicker_than_rank_0_stops_nobody(yard: SweepYard, is_restarted: bool) -> None:
    yard.submit()
    first, second = yard.children(2)
    yard.log(first, 101.0, rank=1)
    if is_restarted:
        yard.restart()
    yard.log(second, 0.9)
    yard.log(first, 0.2, rank=1)
    assert yard.canceled == []
    assert [best.run_id for best in [yard.sweep().best] if best] == [second]
    yard.log(first, 0.1)
    assert yard.canceled == [first]
    [stop] = [trial.stop for trial in yard.sweep().trials if trial.stop]
    assert (stop.interval, stop.value) == (1, 0.1)


@pytest.mark.parametrize("is_restarted", [False, True])
def test_the_lowest_rank_counts_from_the_end_on_where_rank_0_logs_nothing(yard: SweepYard, is_restarted: bool) -> None:
    yard.submit()
    first, second = yard.children(2)
    yard.log(first, 0.2, 0.3, rank=4)
    yard.log(first, 0.9, 0.8, rank=3)
    assert yard.sweep().best is None
    ended = yard.end(first)
    if is_restarted:
        yard.restart()
    yard.sweep().note_ended(ended)
    assert [(best.run_id, best.value) for best in [yard.sweep().best] if best] == [(first, 0.9)]
    how = "best 0.9 of 2, logged by rank 3 and never by rank 0."
    assert f"CONTROLLER][INFO]{first} ended: Completed, {how}" in yard.lines()
    [warning] = yard.run(first).warnings
    assert warning.startswith("No policy judged the run before its end: 'accuracy' was logged by rank 3")
    yard.log(second, 0.5)
    assert yard.canceled == [second]


def test_where_no_policy_judges_the_rank_is_no_matter(yard: SweepYard) -> None:
    yard.submit(policy=None)
    [child] = yard.children(1)
    yard.log(child, 0.2, rank=4)
    yard.sweep().note_ended(yard.end(child))
    assert yard.run(child).warnings == ()


def test_what_rank_0_logged_counts_also_where_it_comes_after_the_end(yard: SweepYard) -> None:
    yard.submit()
    first, second = yard.children(2)
    yard.log(first, 0.9, rank=1)
    yard.sweep().note_ended(yard.end(first))
    yard.log(first, 0.1, 0.2)
    assert [(best.run_id, best.value) for best in [yard.sweep().best] if best] == [(first, 0.2)]
    yard.log(second, 0.1)
    assert yard.canceled == []


def test_nan_and_infinity_are_intervals_that_improve_nothing(yard: SweepYard) -> None:
    yard.submit(primary_metric={"name": METRIC, "goal": "minimize"})
    good, other, lost = yard.children(3)
    yard.log(good, 1.0, 1.0)
    yard.log(other, 1.0, -math.inf)
    assert yard.canceled == []
    yard.log(lost, math.nan)
    assert yard.canceled == [lost]
    [stop] = [trial.stop for trial in yard.sweep().trials if trial.stop]
    assert (stop.interval, stop.value) == (1, None)
    assert [best.run_id for best in [yard.sweep().best] if best] == [good]


@pytest.mark.parametrize("value", ["0.9", None, True])
def test_what_is_no_number_is_no_interval_and_is_said_once(yard: SweepYard, value: object) -> None:
    yard.submit()
    good, other = yard.children(2)
    yard.log(good, 0.9)
    for _ in range(3):
        yard.log(other, value)
    yard.restart()
    yard.log(other, value)
    assert yard.canceled == []
    [warning] = yard.run(other).warnings
    assert METRIC in warning
    assert repr(value) in warning
    assert len([line for line in yard.lines() if f"{other} logs no number" in line]) == 1
    yard.log(other, 0.1)
    assert [trial.stop.interval for trial in yard.sweep().trials if trial.stop] == [1]


def test_a_table_of_the_metrics_name_is_no_number(yard: SweepYard) -> None:
    yard.submit()
    [child] = yard.children(1)
    yard.log(child, {"a": [1]}, kind="t")
    [warning] = yard.run(child).warnings
    assert "table" in warning


def test_who_has_ended_or_is_being_canceled_is_not_judged(yard: SweepYard) -> None:
    yard.submit()
    good, ended, asked = yard.children(3)
    yard.log(good, 0.9)
    yard.end(ended)
    yard.log(ended, 0.1)
    yard.end(asked, RunStatus.CANCEL_REQUESTED)
    yard.log(asked, 0.1)
    assert yard.canceled == []
    assert [trial.stop for trial in yard.sweep().trials] == [None, None, None]


def test_the_numbers_of_those_that_have_ended_count_on(yard: SweepYard) -> None:
    yard.submit()
    good, bad = yard.children(2)
    yard.log(good, 0.9)
    yard.sweep().note_ended(yard.end(good))
    yard.log(bad, 0.1)
    assert yard.canceled == [bad]


def test_nobody_is_judged_while_the_sweep_comes_to_its_end(yard: SweepYard) -> None:
    yard.submit()
    good, bad = yard.children(2)
    yard.log(good, 0.9)
    yard.sweep().stop_judging()
    yard.log(bad, 0.1)
    yard.end(SWEEP, RunStatus.CANCEL_REQUESTED)
    yard.restart()
    yard.log(bad, 0.1)
    assert yard.canceled == []


def test_a_bayesian_sweep_says_that_it_ignores_its_policy_once(yard: SweepYard) -> None:
    sampling = {"name": "BayesianOptimization", "parameter_space": {"lr": ["uniform", [0, 1]]}, "properties": {}}
    yard.submit(sampling=sampling)
    good, bad = yard.children(2)
    yard.log(good, 0.9)
    yard.log(bad, 0.1)
    yard.restart()
    yard.sweep()
    assert yard.canceled == []
    [warning] = yard.run(SWEEP).warnings
    assert [line for line in yard.lines() if warning in line] == [f"CONTROLLER][INFO]{warning}"]


def test_a_slack_factor_of_a_best_below_zero_is_warned_of_once(yard: SweepYard) -> None:
    yard.submit()
    good, *others = yard.children(3)
    yard.log(good, -1.0)
    for child in others:
        yard.log(child, -1.01)
    yard.restart()
    yard.sweep()
    assert yard.canceled == others
    [warning] = yard.run(SWEEP).warnings
    assert warning.startswith("slack_factor=0.1 is a part of the best accuracy, and of a best that is 0 or below")
    assert [line for line in yard.lines() if warning in line] == [f"CONTROLLER][INFO]{warning}"]


@pytest.mark.parametrize(
    ("values", "properties"),
    [((0.9, 0.1), {"slack_factor": 0.1}), ((-1.0, math.nan), {"slack_factor": 0.1}), ((-1.0, -3), {"slack_amount": 1})],
)
def test_other_slack_is_not_warned_of(yard: SweepYard, values: list[float], properties: dict[str, float]) -> None:
    yard.submit(policy={"name": "Bandit", "properties": properties})
    children = yard.children(2)
    for child, value in zip(children, values, strict=True):
        yard.log(child, value)
    assert yard.canceled == children[1:]
    assert yard.run(SWEEP).warnings == ()


def test_the_best_so_far_is_said_when_it_changes(yard: SweepYard) -> None:
    yard.submit(policy=None)
    first, second = yard.children(2)
    yard.log(first, 0.1, 0.3, 0.2)
    yard.log(second, 0.3)
    yard.log(second, 0.4)
    said = [line.partition("INFO]")[2] for line in yard.lines() if "so far" in line]
    assert said == [
        f"{first} leads: the best accuracy so far is 0.3.",
        f"{second} leads: the best accuracy so far is 0.4.",
    ]


def test_runs_beside_a_sweep_are_not_heard(yard: SweepYard) -> None:
    yard.submit()
    [child] = yard.children(1)
    yard.log(child, 0.9)
    yard.stores.runs.create(a_run("x"))
    for stranger, parent in [("HD_1_0_1", child), ("HD_1_7", SWEEP), ("HD_1_00", SWEEP), ("x_0", "x")]:
        yard.stores.runs.create(a_run(stranger, RunStatus.RUNNING, parent_id=RunId(parent)))
        yard.log(RunId(stranger), 0.1)
    assert yard.canceled == []
    assert [best.value for best in [yard.sweep().best] if best] == [0.9]


def test_two_threads_that_log_at_once_are_both_heard(yard: SweepYard) -> None:
    yard.submit(policy={"name": "Bandit", "properties": {"slack_amount": 0.5}})
    children = yard.children(4)
    lines = {child: [yard.line(METRIC, 0.6 + place / 1000) for place in range(10)] for child in children}
    threads = [
        threading.Thread(target=lambda child=child: [yard.deliver(child, 0, line) for line in lines[child]])
        for child in children
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for child in children:
        yard.sweep().note_ended(yard.end(child))
    ends = [line for line in yard.lines() if " ended: " in line]
    assert [line.partition(", ")[2] for line in ends] == ["best 0.609 of 10."] * 4
    assert yard.canceled == []


def test_others_are_judged_while_many_numbers_of_one_are_taken_in(
    yard: SweepYard, monkeypatch: pytest.MonkeyPatch
) -> None:
    yard.submit()
    busy, other = yard.children(2)
    sweep, many = yard.sweep(), 20_000
    lines = [yard.line(METRIC, 0.9) for _ in range(many)]
    beside = threading.Thread(target=yard.log, args=(other, 0.1))
    append, was_stopped = sweep._state.histories.append, []

    def watched(key: int, value: float) -> int:
        count = append(key, value)
        if key == 0 and count == 1:
            beside.start()
        if key == 0 and count == many:
            was_stopped.append(sweep._state.trials[1].stop is not None)
        return count

    monkeypatch.setattr(sweep._state.histories, "append", watched)
    yard.deliver(busy, 0, *lines)
    beside.join()
    assert was_stopped == [True]


def test_a_decision_takes_milliseconds(yard: SweepYard) -> None:
    yard.submit(policy={"name": "MedianStopping", "properties": {}}, max_total_runs=20)
    children = yard.children(20)
    for place, child in enumerate(children[:-10]):
        yard.log(child, 0.5 + place / 1000)
    took = []
    for child in children[-10:]:
        began = time.perf_counter()
        yard.log(child, 0.1)
        took.append(time.perf_counter() - began)
    assert yard.canceled == children[-10:]
    assert sorted(took)[4] < 5  # bench/stopping_decision.py has the figure; here only a wait would be wrong


def test_the_policy_of_a_number_beyond_any_float_is_not_asked(yard: SweepYard) -> None:
    yard.submit()
    good, other = yard.children(2)
    yard.log(good, 0.9)
    yard.deliver(other, 0, f'["m","{METRIC}",{_LARGEST},null,5.0]\n')
    assert yard.canceled == []


def test_the_policy_of_a_default_sweep_stops_nobody(yard: SweepYard) -> None:
    yard.submit(policy={"name": "Default", "properties": {}})
    good, bad = yard.children(2)
    yard.log(good, 0.9)
    yard.log(bad, 0.1)
    assert yard.canceled == []
    assert BANDIT["name"] not in "".join(yard.lines())
