"""Runs for a cluster that has a queue of its own: handed over at once, observed together, found again by their jobs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from runyard.core.ports.engine import NodeTaskPhase, ObservedTask, ticket_of
from runyard.core.records.runs import RunId, RunRecord, RunStatus
from runyard.storage.sql.stores import open_stores
from tests.runs.scheduling.scripted import Stage

GONE = ObservedTask(NodeTaskPhase.GONE, "The job was removed.")


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stores = open_stores(f"sqlite:///{tmp_path}/runyard.db")
    stage = Stage(stores, tmp_path)
    stage.cluster("batch", engine="queue")
    yield stage
    stores.close()


def queued(stage: Stage, count: int, nodes: int = 1) -> list[RunRecord]:
    return [stage.run(nodes, target="batch", run_id=f"r{number}") for number in range(1, count + 1)]


def test_all_are_handed_over_and_asked_for_in_one_question(stage: Stage):
    runs = queued(stage, 45)
    assert {run.status for run in runs} == {RunStatus.QUEUED}
    assert len(stage.queue.plans) == 45
    assert {stage.get(run.id).job_id for run in runs} == {f"job of {run.id}.1" for run in runs}
    stage.controller.reconcile()
    assert [len(asked) for asked in stage.queue.asked] == [45]
    assert set(stage.queue.asked[0]) == {f"job of {run.id}.1" for run in runs}
    assert {stage.get(run.id).attempt for run in runs} == {1}


def test_those_that_were_submitted_while_nobody_looked_go_together(stage: Stage):
    stage.queue.is_away = True
    queued(stage, 3)
    assert stage.queue.plans == {}
    assert stage.get("r3").message == "Not started yet. The cluster does not answer."
    stage.queue.is_away = False
    stage.controller.reconcile()
    assert {str(plan.attempt_id) for plan in stage.queue.plans.values()} == {"r1.1", "r2.1", "r3.1"}
    assert stage.get("r3").job_id == "job of r3.1"


def test_a_supervisor_that_reports_ends_the_waiting(stage: Stage):
    queued(stage, 1)
    stage.tell("preparing", message="Staging.")
    assert stage.get().status is RunStatus.STARTING
    stage.tell("running")
    assert stage.get().status is RunStatus.RUNNING
    stage.tell("ended", outcome="completed")
    assert stage.get().status is RunStatus.COMPLETED
    events = [event.text for event in stage.stores.runs.events(RunId("r1")) if event.kind == "status"]
    assert events == ["NotStarted", "Queued", "Queued", "Starting", "Running", "Completed"]


def test_a_report_that_overtakes_the_others_is_taken(stage: Stage):
    queued(stage, 1)
    stage.tell("ended", outcome="completed")
    assert stage.get().status is RunStatus.COMPLETED


def test_what_the_queue_says_is_the_message(stage: Stage):
    queued(stage, 1)
    stage.queue.phases["r1.1"] = [ObservedTask(NodeTaskPhase.QUEUED, "Priority.")]
    stage.controller.reconcile()
    assert stage.get().message == "In the queue of 'batch': Priority."


def test_a_job_in_the_queue_is_canceled_there(stage: Stage):
    queued(stage, 2)
    stage.queue.is_away = True
    stage.controller.cancel(RunId("r1"))
    assert stage.get().status is RunStatus.CANCEL_REQUESTED
    stage.queue.is_away = False
    stage.controller.reconcile()
    assert stage.queue.stops == [("r1.1", "canceled")]
    stage.queue.phases["r1.1"] = [GONE]
    stage.controller.reconcile()
    assert stage.get().status is RunStatus.CANCELED
    assert stage.get("r2").status is RunStatus.QUEUED


def test_a_job_that_is_gone_from_the_queue_is_a_lost_attempt(stage: Stage):
    stage.run(1, target="batch", RUNYARD_MAX_ATTEMPTS="2")
    stage.queue.phases["r1.1"] = [GONE]
    stage.controller.reconcile()
    assert (stage.get().status, stage.get().attempt) == (RunStatus.QUEUED, 2)
    assert stage.get().job_id == "job of r1.2"
    stage.queue.phases["r1.2"] = [GONE]
    stage.controller.reconcile()
    assert stage.get().status is RunStatus.FAILED
    assert "The job was removed." in stage.get().error["error"]["message"]


def test_a_service_that_begins_anew_asks_by_the_job_ids(stage: Stage):
    queued(stage, 2)
    stage.open()
    stage.controller.reconcile()
    assert stage.queue.asked[-1] == ["job of r1.1", "job of r2.1"]
    assert len(stage.queue.plans) == 2
    stage.tell("running")
    stage.queue.phases["r1.1"] = [ObservedTask(NodeTaskPhase.LOST)]
    stage.controller.reconcile()
    assert stage.queue.recovered == [("r1.1", 0)]


def test_a_job_whose_id_was_never_stored_is_submitted_again(stage: Stage):
    queued(stage, 1)
    stage.stores.runs.update(RunId("r1"), job_id=None)
    assert ticket_of(stage.get()).job_id == ""
    del stage.queue.phases["r1.1"]
    stage.open()
    stage.controller.reconcile()
    assert (stage.get().job_id, stage.get().attempt) == ("job of r1.1", 1)


def test_addresses_that_are_not_known_yet_are_left_open(stage: Stage):
    stage.run(2, target="batch")
    plan = stage.queue.plans["r1.1*2"]
    assert [node.address for node in plan.nodes] == ["<address:0>", "<address:1>"]
    assert [node.name for node in plan.nodes] == ["batch-0", "batch-1"]
    for node in range(2):
        stage.ready(node)
    for node in range(2):
        stage.tell("running", node)
    assert stage.get().status is RunStatus.RUNNING


def test_another_queue_is_served_while_one_cannot_be_reached(stage: Stage):
    stage.queue.is_away = True
    queued(stage, 1)
    stage.cluster("gang")
    assert stage.run(1, target="gang", run_id="near").status is RunStatus.STARTING
