"""How a sweep goes on, on real stores with children that the test plays."""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from runyard.core.errors import StorageFull
from runyard.core.records.runs import RunId, RunStatus
from runyard.runs.kinds.sweep.live_sweep import LiveSweep
from runyard.runs.runs import Runs
from runyard.storage.sql.stores import open_stores
from runyard.testing.records import a_file, a_run
from tests.grants import access_to
from tests.runs.scheduling.scripted import FullDisk
from tests.runs.scheduling.sweep_stage import SWEEP, SweepStage

pytestmark = pytest.mark.slow

_S = RunStatus


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[SweepStage]:
    stores = open_stores(f"sqlite:///{tmp_path}/runyard.db")
    yield SweepStage(stores, tmp_path)
    stores.close()


def test_as_many_children_as_may_go_on_are_started_at_once(stage: SweepStage) -> None:
    assert stage.submit().status is _S.RUNNING
    assert [child.id for child in stage.children()] == ["HD_s_0", "HD_s_1"]
    assert set(stage.statuses()) == {_S.STARTING}


def test_a_free_slot_is_filled_and_the_sweep_ends_with_its_last_child(stage: SweepStage) -> None:
    stage.submit()
    stage.ended(stage.children()[1])
    stage.controller.reconcile()
    assert [child.status for child in stage.children()] == [_S.STARTING, _S.COMPLETED, _S.STARTING]
    stage.play()
    assert stage.statuses() == {_S.COMPLETED: 5}
    assert stage.sweep.status is _S.COMPLETED
    assert "Of 5 children: 5 Completed" in stage.lines()


def test_a_child_is_what_was_submitted_with_the_values_of_its_trial(stage: SweepStage) -> None:
    stage.submit()
    child, trial = stage.get("HD_s_0"), stage.stores.trials.list(SWEEP)[0]
    assert child.definition.raw["arguments"] == ["--epochs", "3", "--lr", str(trial.values["lr"])]
    assert child.definition.raw["runyard"] == {"cancel_grace_seconds": 0}
    assert json.loads(child.tags["hyperparameters"]) == trial.values
    assert child.tags["_aml_system_hyperparameters"] == child.tags["hyperparameters"]
    assert (child.parent_id, child.root_id, child.type) == (SWEEP, SWEEP, "azureml.scriptrun")


def test_values_are_quoted_for_a_command_that_a_shell_reads(stage: SweepStage) -> None:
    space = {"name": "GRID", "parameter_space": {"who": ["choice", [["it's; me"]]]}}
    sweep = stage.submit(sampling=space, max_total_runs=1)
    definition = sweep.definition.with_fields(command="echo hello")
    stage.stores.runs.create(replace(sweep, id=RunId("HD_c"), status=_S.NOT_STARTED, definition=definition))
    stage.controller.reconcile()
    assert stage.get("HD_c_0").definition.raw["command"] == "echo hello --who 'it'\"'\"'s; me'"


def test_a_target_without_nodes_takes_one_child_for_each_cpu_and_says_so(stage: SweepStage) -> None:
    stage.submit(max_concurrent_runs=4)
    assert len(stage.children()) == 2
    assert "max_concurrent_runs is 4, but 'local' has no nodes to wait for: 2 at a time" in stage.lines()


def test_on_a_cluster_children_wait_for_nodes(stage: SweepStage) -> None:
    stage.cluster("two", max_nodes=2)
    stage.submit(target="two", max_total_runs=30, max_concurrent_runs=30)
    for _ in range(5):
        stage.controller.reconcile()
    assert stage.statuses() == {_S.STARTING: 2, _S.QUEUED: 28}
    stage.play()
    assert stage.statuses() == {_S.COMPLETED: 30}
    assert set(stage.starts().values()) == {1}


def test_a_grid_that_is_smaller_than_asked_for_ends_the_sweep(stage: SweepStage) -> None:
    stage.submit(sampling={"name": "GRID", "parameter_space": {"lr": ["choice", [[1, 2, 3]]]}}, max_total_runs=10)
    stage.play()
    assert stage.statuses() == {_S.COMPLETED: 3}
    assert stage.sweep.status is _S.COMPLETED


def test_a_child_that_its_user_cancels_is_only_itself(stage: SweepStage) -> None:
    stage.submit()
    stage.controller.cancel(RunId("HD_s_0"))
    stage.play()
    assert stage.statuses() == {_S.CANCELED: 1, _S.COMPLETED: 4}
    assert stage.sweep.status is _S.COMPLETED


def test_children_that_fail_end_nothing_but_themselves(stage: SweepStage) -> None:
    stage.submit()
    stage.log(stage.children()[1], 0.5)
    stage.failed(stage.children()[0])
    stage.play()
    assert stage.sweep.status is _S.COMPLETED
    assert "1 of 5 children failed: HD_s_0." in stage.sweep.warnings[0]


def test_a_sweep_of_which_all_fail_has_failed(stage: SweepStage) -> None:
    stage.submit()
    while not stage.sweep.status.is_terminal:
        for child in stage.children():
            if child.status is _S.STARTING:
                stage.failed(child, f"ValueError: bad rate {child.sequence}")
        stage.controller.reconcile()
    assert stage.sweep.status is _S.FAILED
    error = stage.sweep.error["error"]
    assert error["message"].startswith("All 5 children failed. The cause (as of HD_s_0): ValueError: bad rate")
    assert error["message"] in stage.lines()


def test_the_best_is_a_property_at_the_end(stage: SweepStage) -> None:
    stage.submit(max_total_runs=2)
    stage.log(stage.children()[0], 0.1, 0.7, 0.2)
    stage.log(stage.children()[1], 0.3)
    stage.play()
    found = stage.sweep.properties
    assert (found["score"], found["best_child_run_id"], found["best_metric_status"]) == ("0.7", "HD_s_0", "Succeeded")


def test_a_metric_that_nobody_logs_is_said_with_what_they_did_log(stage: SweepStage) -> None:
    stage.submit(max_total_runs=2)
    stage.log(stage.children()[0], 0.1, name="acc")
    stage.play()
    assert stage.sweep.status is _S.COMPLETED
    assert "What they did log: 'acc' (in 1)" in stage.sweep.warnings[0]
    assert "score" not in stage.sweep.properties
    assert "No child logged" in stage.sweep.properties["best_metric_status"]


def test_a_sweep_that_is_called_off_is_canceled_when_its_children_are(stage: SweepStage) -> None:
    stage.submit()
    stage.controller.cancel(SWEEP)
    assert stage.sweep.status is _S.CANCEL_REQUESTED
    assert set(stage.statuses()) == {_S.STARTING}  # the request has not gone through all children
    stage.controller.reconcile()
    stage.controller.reconcile()
    assert stage.statuses() == {_S.CANCEL_REQUESTED: 2}
    assert stage.sweep.status is _S.CANCEL_REQUESTED
    stage.play()
    assert stage.sweep.status is _S.CANCELED
    assert stage.statuses() == {_S.CANCELED: 2}
    said = "It was asked to cancel the sweep; children that are canceled: 2, trials that are not begun: 3."
    assert stage.lines().count(said) == 1


def test_no_child_starts_while_a_sweep_is_called_off(stage: SweepStage) -> None:
    stage.cluster("one", max_nodes=1)
    stage.submit(target="one", max_total_runs=120, max_concurrent_runs=120)
    while len(stage.children()) < 120:
        stage.controller.reconcile()
    stage.controller.cancel(SWEEP)
    stage.ended(stage.get("HD_s_0"))
    stage.open()
    for child in stage.children():
        stage.controller.advance(child.id)
    stage.play()
    assert stage.sweep.status is _S.CANCELED
    assert stage.starts() == {"HD_s_0": 1}
    assert stage.statuses() == {_S.CANCELED: 119, _S.COMPLETED: 1}


def test_when_its_time_is_over_what_goes_on_is_canceled_and_said(stage: SweepStage) -> None:
    stage.submit()
    stage.ended(stage.children()[0])
    stage.controller.reconcile()
    stage.clock.advance(timedelta(minutes=60))
    stage.controller.reconcile()
    stage.play()
    assert stage.statuses() == {_S.COMPLETED: 1, _S.CANCELED: 2}
    assert stage.sweep.status is _S.COMPLETED
    expected = "max_duration_minutes (60) was over: 2 children canceled that went on, and 2 trials were not begun."
    assert stage.sweep.warnings[0] == expected
    assert f"{expected}<END>" in stage.lines()
    said = "max_duration_minutes (60) is over; children that are canceled: 2, trials that are not begun: 2."
    assert said in stage.lines()
    assert stage.children()[1].warnings == ("Canceled because the time of its sweep was over.",)


def test_a_sweep_that_was_done_in_time_says_nothing_of_it(stage: SweepStage) -> None:
    stage.submit(max_total_runs=2)
    for child in stage.children():
        stage.ended(child)
    stage.clock.advance(timedelta(minutes=60))
    stage.open()
    stage.controller.reconcile()
    assert stage.sweep.status is _S.COMPLETED
    assert not any("max_duration_minutes" in text for text in stage.sweep.warnings)


@pytest.mark.parametrize("write", ["trials.add", "runs.create", "logs.append"])
def test_what_cannot_be_written_is_said_and_tried_again(
    stage: SweepStage, monkeypatch: pytest.MonkeyPatch, write: str
) -> None:
    parts = {"trials": stage.stores.trials, "runs": stage.stores.runs, "logs": stage.logs}
    part, method = write.split(".")
    first = stage.submit(max_concurrent_runs=1)
    stage.ended(stage.children()[0])
    with monkeypatch.context() as full_disk:
        full_disk.setattr(type(parts[part]), method, _no_room)
        stage.controller.reconcile()
        assert "No space left." in stage.get(first.id).message
        stage.controller.reconcile()
        assert len(stage.children()) == 1
    stage.play()
    assert stage.statuses() == {_S.COMPLETED: 5}
    assert [child.id for child in stage.children()] == [f"HD_s_{number}" for number in range(5)]


def _no_room(*given: Any, **named: Any) -> None:
    raise StorageFull("No space left.")


def test_a_sampler_that_fails_is_said_and_asked_again(stage: SweepStage, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(LiveSweep, "sample", lambda sweep, count: [1 / 0])
        stage.submit()
        assert "division by zero" in stage.sweep.message
    stage.play()
    assert stage.statuses() == {_S.COMPLETED: 5}


def test_trouble_that_cannot_be_printed_is_tried_again_too(stage: SweepStage, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(sys, "stderr", FullDisk())
        broken.setattr(LiveSweep, "sample", lambda sweep, count: [1 / 0])
        stage.submit()
    stage.play()
    assert stage.statuses() == {_S.COMPLETED: 5}


def test_the_trouble_of_one_sweep_is_not_that_of_another(stage: SweepStage, monkeypatch: pytest.MonkeyPatch) -> None:
    sampled = LiveSweep.sample
    monkeypatch.setattr(
        LiveSweep, "sample", lambda sweep, count: sampled(sweep, count if sweep.run_id == SWEEP else 1 / 0)
    )
    stage.submit(sweep_id="HD_t")
    assert "division by zero" in stage.get("HD_t").message
    stage.submit()
    stage.play()
    assert stage.sweep.status is _S.COMPLETED


def test_an_end_that_nobody_was_told_of_is_seen(stage: SweepStage) -> None:
    stage.submit()
    child = stage.children()[0]
    stage.stores.runs.move(child, _S.COMPLETED)  # past the notifier
    stage.controller.reconcile()
    assert len(stage.children()) == 3


def test_a_child_that_is_gone_holds_nothing_up(stage: SweepStage) -> None:
    stage.submit()
    stage.stores.runs.move(stage.children()[0], _S.COMPLETED)
    stage.stores.runs.delete(stage.children()[0].id)
    stage.play()
    assert stage.sweep.status is _S.COMPLETED
    assert stage.starts()[RunId("HD_s_0")] == 1


def test_a_sweep_that_is_canceled_before_it_begins_makes_no_child(stage: SweepStage) -> None:
    stage.controller.reconcile()
    with_no_look = stage.stores.runs.create(replace(stage.submit(), id=RunId("HD_n"), status=_S.NOT_STARTED))
    stage.controller.cancel(with_no_look.id)
    stage.controller.reconcile()
    assert stage.get("HD_n").status is _S.CANCELED
    assert stage.stores.trials.list(with_no_look.id) == []


def test_what_a_child_has_submitted_is_canceled_with_it(stage: SweepStage) -> None:
    stage.submit()
    below = stage.stores.runs.create(a_run("below", _S.QUEUED, parent_id=RunId("HD_s_0"), target="gone"))
    stage.controller.cancel(SWEEP)
    stage.controller.reconcile()
    assert stage.get(below.id).status is _S.CANCELED


def test_a_service_with_a_sweep_is_not_idle(stage: SweepStage) -> None:
    access = access_to(stage.stores)
    runs = Runs(stage.stores.runs, stage.stores.metrics, stage.logs, stage.controller, stage.clock, access)
    stage.submit(max_total_runs=1)
    stage.ended(stage.children()[0])
    assert runs.has_unfinished()
    stage.play()
    assert not runs.has_unfinished()


def test_a_resumed_child_begins_with_the_outputs_of_the_one_before(stage: SweepStage) -> None:
    stage.submit(max_total_runs=1)
    first = stage.children()[0]
    stage.stores.files.put(first.id, [a_file("outputs/model.pkl"), a_file("logs/x")])
    stage.play()
    stage.submit(sweep_id="HD_again", max_total_runs=2, resume_child_runs=[first.id])
    again = stage.get("HD_again_0")
    assert [file.path for file in stage.stores.files.list(again.id)] == ["outputs/model.pkl"]
    plans = {plan.run_id: plan for plan in stage.engine.plans.values()}
    assert plans[again.id].restores_outputs
    assert not plans[RunId("HD_again_1")].restores_outputs
    assert again.tags["hyperparameters"] == first.tags["hyperparameters"]


def test_a_resumed_child_is_told_where_those_outputs_are(stage: SweepStage) -> None:
    stage.submit(max_total_runs=1)
    stage.play()
    stage.submit(sweep_id="HD_again", max_total_runs=2, resume_child_runs=["HD_s_0"])
    resumed, sampled = (stage.get(f"HD_again_{number}").definition.raw for number in (0, 1))
    assert resumed["arguments"][:4] == ["--epochs", "3", "--resume-from", "outputs"]
    variable = "AZUREML_DATAREFERENCE_MODEL_LOCATION"
    assert resumed["environment"]["environmentVariables"][variable] == "outputs"
    assert "--resume-from" not in sampled["arguments"]
    assert variable not in sampled["environment"].get("environmentVariables", {})


def test_a_sweep_says_what_it_goes_on_from(stage: SweepStage) -> None:
    stage.submit(sweep_id="HD_before", max_total_runs=2)
    for child_id in ("HD_before_0", "HD_before_1"):
        stage.log(stage.get(child_id), 0.5)
        stage.ended(stage.get(child_id))
    stage.submit(resume_from=["HD_before"])
    assert "It goes on from HD_before: 2 trials are known" in stage.lines()
