import sys
from contextlib import suppress

import pytest

from runyard.core.records.runs import RunStatus
from runyard.testing.records import a_run
from tests.runs.sweep_parts import METRIC, SWEEP, Killed, KilledAfter, SweepYard


@pytest.mark.parametrize("writes", range(8))
def test_a_decision_is_carried_out_whenever_the_service_is_killed(yard: SweepYard, writes: int) -> None:
    yard.submit()
    good, bad = yard.children(2)
    yard.log(good, 0.9)
    yard.restart(KilledAfter(writes))
    line = yard.line(METRIC, 0.1)
    try:
        yard.deliver(bad, 0, line)
        is_killed = False
    except Killed:
        is_killed = True
    assert is_killed == (writes < 6), "points, decision, warning, event, line, cancel"
    yard.restart()
    yard.sweep()
    yard.deliver(bad, 0, line)  # its supervisor was not answered
    [stop] = [trial.stop for trial in yard.stores.trials.list(SWEEP) if trial.stop]
    assert (stop.interval, stop.value) == (1, 0.1)
    assert [event.text for event in yard.decisions(bad)] == list(yard.run(bad).warnings)
    assert yard.run(bad).warnings == (f"Stopped by the {stop.text}",)
    assert any(f"{bad} stopped: {stop.text}" in line for line in yard.lines())
    assert yard.canceled == [bad]
    assert yard.run(bad).status is RunStatus.CANCEL_REQUESTED


def test_an_interval_that_was_due_before_the_last_of_a_batch_is_judged_after_a_kill(yard: SweepYard) -> None:
    yard.submit(policy={"name": "Bandit", "properties": {"slack_factor": 0.1, "evaluation_interval": 2}})
    good, bad = yard.children(2)
    yard.log(good, 0.9, 0.9, 0.9)
    yard.restart(KilledAfter(1))
    with pytest.raises(Killed):
        yard.log(bad, 0.1, 0.1, 0.1)
    yard.restart()
    yard.sweep()
    assert yard.canceled == [bad]
    assert [trial.stop.interval for trial in yard.sweep().trials if trial.stop] == [2]


def test_loading_anew_stops_nobody_whom_later_numbers_would_have_stopped(yard: SweepYard) -> None:
    yard.submit()
    slow, quick = yard.children(2)
    yard.log(slow, 0.5)
    yard.log(quick, 0.9)
    for _ in range(2):
        yard.restart()
        assert yard.sweep().trials[0].stop is None
    assert yard.canceled == []


def test_what_was_heard_goes_on_after_a_restart(yard: SweepYard) -> None:
    yard.submit(policy={"name": "Bandit", "properties": {"slack_factor": 0.1, "evaluation_interval": 3}})
    good, bad = yard.children(2)
    yard.log(good, 0.9, 0.9, 0.9)
    yard.log(bad, 0.5, 0.5)
    yard.restart()
    yard.log(bad, 0.5)
    assert yard.canceled == [bad]
    assert [trial.stop.interval for trial in yard.sweep().trials if trial.stop] == [3]


def test_a_fault_of_the_judgement_costs_no_journal_and_is_mended(
    yard: SweepYard, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    yard.submit()
    good, bad = yard.children(2)
    yard.log(good, 0.9)
    stop = yard.stores.trials.stop
    monkeypatch.setattr(yard.stores.trials, "stop", lambda *_: 1 / 0)
    yard.log(bad, 0.1)
    assert "ZeroDivisionError" in caplog.text
    assert yard.stores.metrics.summaries([bad])[bad][0].count == 1
    monkeypatch.setattr(yard.stores.trials, "stop", stop)
    yard.sweep()
    assert yard.canceled == [bad]


def test_a_fault_of_the_judgement_costs_no_journal_where_it_cannot_be_told_either(
    yard: SweepYard, monkeypatch: pytest.MonkeyPatch
) -> None:
    yard.submit()
    good, bad = yard.children(2)
    yard.log(good, 0.9)
    monkeypatch.setattr(yard.stores.trials, "stop", lambda *_: 1 / 0)
    with open("/dev/full", "w", buffering=1) as full:
        monkeypatch.setattr(sys, "stderr", full)
        yard.log(bad, 0.1)
        monkeypatch.undo()
        with suppress(OSError):
            full.close()
    yard.sweep()
    assert yard.canceled == [bad]


def test_what_came_from_a_child_is_stopped_though_the_service_was_killed_in_between(yard: SweepYard) -> None:
    yard.submit()
    good, bad = yard.children(2)
    yard.stores.runs.create(a_run("below", RunStatus.RUNNING, parent_id=bad))
    yard.log(good, 0.9)
    yard.restart(KilledAfter(6))  # points, decision, warning, event, line, cancel of the child
    with pytest.raises(Killed):
        yard.log(bad, 0.5)
    assert yard.canceled == [bad]
    yard.restart()
    yard.sweep()
    assert yard.canceled == [bad, "below"]
