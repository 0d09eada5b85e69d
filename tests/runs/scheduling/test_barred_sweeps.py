"""Sweeps of which no further child can be made, whatever is tried."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from runyard.core.records.runs import RunId, RunRecord, RunStatus
from runyard.storage.sql.stores import open_stores
from runyard.testing.records import a_file
from tests.runs.scheduling.sweep_stage import SWEEP, SweepStage

_S = RunStatus
TO_BUILD = {"condaDependencies": {"dependencies": ["python=3.11", {"pip": ["xyzzy"]}]}}
NO_XYZZY = "Resolving the packages failed. uv says:\n  there is no xyzzy"


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[SweepStage]:
    stores = open_stores(f"sqlite:///{tmp_path}/runyard.db")
    yield SweepStage(stores, tmp_path)
    stores.close()


def builder_of(stage: SweepStage) -> RunRecord:
    """The one child that builds for all."""
    (builder,) = [child for child in stage.children() if child.status is _S.PREPARING and child.ticket]
    return builder


def build_fails(stage: SweepStage, cause: str) -> None:
    builder = builder_of(stage)
    stage.ended(builder, "failed", error={"code": "UserError", "message": NO_XYZZY, "cause": cause})
    stage.controller.advance(SWEEP)  # it hears of the end before those do that wait for the build
    stage.controller.advance(builder.id)


def test_an_environment_that_cannot_be_made_is_tried_once_and_ends_the_sweep(stage: SweepStage) -> None:
    stage.submit(python=TO_BUILD, max_total_runs=20)
    build_fails(stage, "no_such_package")
    stage.controller.reconcile()
    assert stage.statuses() == {_S.FAILED: 2}
    assert set(stage.starts()) == {"HD_s_0"}
    assert stage.sweep.status is _S.FAILED
    cause = "The cause, which holds for all children (as of HD_s_0): Resolving the packages failed. uv says:"
    expected = f"18 trials were not begun, and 2 of 2 children failed. {cause} there is no xyzzy"
    assert stage.sweep.error["error"]["message"] == expected
    assert "No further children are made. The cause, which holds for all" in stage.lines()
    assert expected in stage.lines()


def test_one_that_another_try_may_mend_ends_nothing_but_its_child(stage: SweepStage) -> None:
    stage.submit(python=TO_BUILD, max_total_runs=20)
    build_fails(stage, "network")
    stage.controller.reconcile()
    assert stage.statuses() == {_S.FAILED: 1, _S.PREPARING: 2}
    assert stage.sweep.status is _S.RUNNING


def test_one_that_no_three_tries_in_a_row_mend_ends_the_sweep(stage: SweepStage) -> None:
    stage.submit(python=TO_BUILD, max_total_runs=20)
    for _ in range(3):
        assert "No further children" not in stage.lines()
        build_fails(stage, "network")
        stage.controller.reconcile()
    build_fails(stage, "network")  # the one that had waited for the third
    stage.controller.reconcile()
    assert stage.sweep.status is _S.FAILED
    assert stage.statuses() == {_S.FAILED: 4}
    assert "16 trials were not begun" in stage.sweep.error["error"]["message"]


def test_a_child_that_had_its_environment_gives_the_others_new_tries(stage: SweepStage) -> None:
    stage.submit(python=TO_BUILD, max_total_runs=20)
    for _ in range(2):
        build_fails(stage, "network")
        stage.controller.reconcile()
    stage.failed(builder_of(stage), "ValueError: no")
    stage.controller.advance(SWEEP)
    stage.controller.reconcile()
    build_fails(stage, "network")
    assert "No further children" not in stage.lines()


def test_a_killed_service_knows_it_from_the_children(stage: SweepStage) -> None:
    stage.submit(python=TO_BUILD, max_total_runs=20)
    builder = stage.children()[0]
    stage.open()
    stage.ended(builder, "failed", error={"code": "UserError", "message": NO_XYZZY, "cause": "conflict"})
    stage.open()
    stage.controller.reconcile()
    assert len(stage.children()) == 2
    build_fails(stage, "conflict")
    stage.controller.reconcile()
    assert stage.sweep.status is _S.FAILED
    assert "(as of HD_s_0)" in stage.sweep.error["error"]["message"]


def test_a_stranger_with_the_id_of_a_coming_child_fails_the_sweep_after_those_that_go_on(stage: SweepStage) -> None:
    stage.run(nodes=1, target="local", run_id="HD_s_2")
    stage.submit()
    stage.ended(stage.children()[0])
    stage.controller.reconcile()
    assert stage.statuses() == {_S.COMPLETED: 1, _S.STARTING: 1}
    stage.play()
    assert stage.statuses() == {_S.COMPLETED: 2}
    assert stage.sweep.status is _S.FAILED
    message = stage.sweep.error["error"]["message"]
    assert message.startswith("3 trials were not begun. ")
    assert "The id of its next child, HD_s_2, is that of another run" in message
    assert stage.get("HD_s_2").status is _S.STARTING


def test_children_that_were_made_before_the_stranger_was_met_are_started(stage: SweepStage) -> None:
    stage.run(nodes=1, target="local", run_id="HD_s_1")
    stage.submit()
    assert stage.statuses() == {_S.STARTING: 1}
    assert "HD_s_0 scheduled" in stage.lines()


def test_a_child_to_resume_that_is_gone_before_the_sweep_begins_fails_it(stage: SweepStage) -> None:
    stage.submit(max_total_runs=1)
    stage.stores.files.put(RunId("HD_s_0"), [a_file("outputs/model.pkl")])
    stage.play()
    for gone in ("HD_s_0", "HD_s"):
        stage.stores.runs.delete(RunId(gone))
    again = stage.submit(sweep_id="HD_again", resume_child_runs=["HD_s_0"])
    assert again.status is _S.FAILED
    expected = "5 trials were not begun. resume_child_runs names 'HD_s_0', whose values are not stored"
    assert again.error["error"]["message"].startswith(expected)
