"""What the nodes of one attempt tell, in any order, late and twice; the engine is played by the test."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from runyard.core.errors import InvalidArgument, Unreachable
from runyard.core.records.runs import RunStatus
from runyard.storage.sql.stores import open_stores
from tests.runs.scheduling.scripted import Stage

FAILED = {"outcome": "failed", "exit_code": 3, "rank": 1, "error": {"code": "UserError", "message": "It broke."}}


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stores = open_stores(f"sqlite:///{tmp_path}/runyard.db")
    made = Stage(stores, tmp_path)
    made.cluster()
    yield made
    stores.close()


def test_every_node_gets_a_plan_with_names_addresses_and_one_secret(stage: Stage):
    run = stage.run(nodes=3)
    [plan] = stage.engine.plans.values()
    assert run.nodes == tuple(node.name for node in plan.nodes) == ("gang-0", "gang-1", "gang-2")
    assert len({node.address for node in plan.nodes}) == 3
    assert len(plan.secret) == 64
    stage.open()
    stage.controller.reconcile()
    assert stage.engine.plans["r1.1*3"] == plan


def test_the_roster_comes_once_all_are_ready(stage: Stage):
    stage.run()
    assert stage.ready(1)["roster"] is None
    roster = stage.ready(0)["roster"]
    assert [facts["ports"] for facts in roster] == [{"master": 6105}, {"master": 6106}]
    assert stage.ready(1)["roster"] == roster


def test_asking_again_with_other_ports_changes_nothing(stage: Stage):
    stage.run()
    stage.ready(0)
    stage.tell("ready", 0, address="127.0.0.9", ports={"master": 1})
    assert stage.ready(1)["roster"][0]["ports"] == {"master": 6105}


def test_the_run_is_running_when_its_first_node_is(stage: Stage):
    stage.run()
    stage.ready(0), stage.ready(1)
    stage.tell("running", 1)
    assert stage.get().status is RunStatus.STARTING
    stage.tell("running", 0)
    assert stage.get().status is RunStatus.RUNNING


def test_it_completes_when_the_last_node_has_ended(stage: Stage):
    stage.run()
    stage.all_running()
    stage.tell("ended", 0, outcome="completed", exit_code=0)
    assert stage.get().status is RunStatus.RUNNING
    answer = stage.tell("ended", 1, outcome="completed", exit_code=0)
    assert stage.get().status is RunStatus.COMPLETED
    assert answer["cancel"] is True
    assert {node.run_id for node in stage.stores.nodes.list("vision", "gang")} == {None}


def test_a_failed_rank_stops_the_others_and_is_named(stage: Stage):
    stage.run()
    stage.all_running()
    stage.tell("ended", 1, **FAILED)
    assert stage.engine.stops == [("r1.1*2", "failed")]
    assert stage.get().status is RunStatus.RUNNING
    for state in ("finalizing", "done"):
        answer = stage.tell(state, 0)
        assert (answer["cancel"], answer["end_as"]) == (True, "failed")
    stage.tell("ended", 0, outcome="failed")
    run = stage.get()
    assert run.status is RunStatus.FAILED
    error = run.error["error"]
    assert "rank 1 on node gang-1" in error["message"]
    assert "exited with code 3" in error["message"]
    assert error["messageParameters"]["exit_code"] == "3"
    assert run.exit_facts["rank"] == 1


def test_a_rank_that_failed_stops_the_others_before_its_node_has_delivered(stage: Stage):
    stage.run()
    stage.all_running()
    answer = stage.tell("failing", 1, **FAILED)
    assert (answer["cancel"], answer["end_as"]) == (True, "failed")
    assert stage.engine.stops == [("r1.1*2", "failed")]
    assert (stage.get().status, stage.get().message) == (
        RunStatus.RUNNING,
        "Rank 1 on node gang-1 failed; stopping the others.",
    )
    stage.tell("finalizing", 1, message="Uploading data.")
    assert "stopping the others" in stage.get().message
    stage.tell("ended", 0, outcome="failed")
    assert stage.get().status is RunStatus.RUNNING
    stage.tell("ended", 1, **FAILED)
    run = stage.get()
    assert (run.status, run.message) == (RunStatus.FAILED, "")
    assert "rank 1 on node gang-1" in run.error["error"]["message"]


def test_a_late_word_of_failing_changes_nothing(stage: Stage):
    stage.run()
    stage.all_running()
    stage.tell("ended", 1, **FAILED)
    stage.tell("failing", 1, **{**FAILED, "exit_code": 99})
    stage.tell("ended", 0, outcome="failed")
    assert "exited with code 3" in stage.get().error["error"]["message"]


def test_a_gang_that_is_canceled_while_it_fails_is_canceled(stage: Stage):
    stage.run()
    stage.all_running()
    stage.tell("failing", 1, **FAILED)
    stage.controller.cancel(stage.get().id)
    assert stage.tell("failing", 1, **FAILED)["end_as"] == "canceled"
    stage.tell("ended", 1, **FAILED)
    stage.tell("ended", 0, outcome="canceled")
    assert stage.get().status is RunStatus.CANCELED


def test_a_service_that_begins_anew_knows_who_was_failing(stage: Stage):
    stage.run()
    stage.all_running()
    stage.tell("failing", 1, **FAILED)
    stage.open()
    assert stage.tell("done", 0)["end_as"] == "failed"


def test_what_nodes_wrote_together_is_saved_once_all_have_ended(stage: Stage):
    stage.run()
    stage.all_running()
    stage.tell("ended", 0, outcome="completed", exit_code=0, outputs={"out": 2})
    assert stage.outputs.saved == []
    for _ in range(2):
        stage.tell("ended", 1, outcome="completed", exit_code=0, outputs={"out": 4})
    assert stage.outputs.saved == [("r1.1", "out", 4, True)]
    assert stage.get().status is RunStatus.COMPLETED


def test_what_a_failed_gang_wrote_is_not_registered(stage: Stage):
    stage.run()
    stage.all_running()
    stage.tell("ended", 1, outputs={"out": 1}, **FAILED)
    stage.tell("ended", 0, outcome="failed", outputs={"out": 2})
    assert stage.outputs.saved == [("r1.1", "out", 2, False)]


def test_an_output_that_cannot_be_saved_fails_the_run(stage: Stage):
    stage.run()
    stage.all_running()
    stage.outputs.refusal = Unreachable("The datastore 'lake' does not answer.")
    for node in range(2):
        stage.tell("ended", node, outcome="completed", exit_code=0, outputs={"out": 1})
    run = stage.get()
    assert run.status is RunStatus.FAILED
    message = run.error["error"]["message"]
    assert message == (
        "Output 'out' was uploaded, but could not be saved as a dataset. The datastore 'lake' does not answer."
    )


def test_last_lines_come_from_the_delivered_log_where_the_node_told_none(stage: Stage):
    stage.run()
    stage.all_running()
    text = b"".join(b"line %d\n" % number for number in range(100))
    stage.logs.append("r1", "azureml-logs/70_driver_log_1.txt", 0, text)
    stage.tell("ended", 0, outcome="failed", error={"code": "UserError", "message": "x"}, rank=1, exit_code=9)
    stage.tell("ended", 1, outcome="failed")
    [lines] = stage.get().error["error"]["details"]
    assert lines["message"].splitlines() == [f"line {number}" for number in range(80, 100)]


def test_parameter_servers_are_stopped_when_the_workers_have_ended(stage: Stage):
    stage.run()
    stage.ready(0)
    stage.tell("ready", 1, address="127.0.0.3", ports={}, is_essential=False)
    stage.tell("running", 0), stage.tell("running", 1)
    stage.tell("ended", 0, outcome="completed", exit_code=0)
    assert stage.engine.stops[-1] == ("r1.1*2", "completed")
    stage.tell("ended", 1, outcome="completed")
    assert stage.get().status is RunStatus.COMPLETED


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_the_end_does_not_depend_on_the_order_of_the_reports(stage: Stage, order: tuple[int, ...]):
    stage.run(nodes=3)
    stage.all_running(3)
    for node in order:
        facts = FAILED | {"failed_at": "2026-01-01T00:00:00+00:00"} if node == 1 else {"outcome": "failed"}
        for _ in range(2):
            stage.tell("ended", node, **facts)
    run = stage.get()
    assert run.status is RunStatus.FAILED
    assert "rank 1 on node gang-1" in run.error["error"]["message"]


def test_a_service_that_was_restarted_in_between_goes_on(stage: Stage):
    stage.run()
    stage.all_running()
    stage.tell("ended", 1, **FAILED)
    stage.open()
    stage.tell("ended", 0, outcome="failed")
    assert "rank 1 on node gang-1" in stage.get().error["error"]["message"]


def test_reports_that_come_before_those_they_follow_are_taken(stage: Stage):
    stage.run()
    stage.tell("ended", 0, outcome="completed", exit_code=0, address="127.0.0.2")
    stage.tell("running", 0)
    stage.ready(1), stage.tell("running", 1)
    stage.tell("ended", 1, outcome="completed", exit_code=0)
    assert stage.get().status.is_terminal


def test_a_late_report_of_a_run_that_has_ended_changes_nothing(stage: Stage):
    stage.run()
    stage.all_running()
    for node in range(2):
        stage.tell("ended", node, outcome="completed", exit_code=0)
    before = stage.get()
    answer = stage.tell("ended", 1, **FAILED)
    assert stage.get() == before
    assert answer["cancel"] is True


@pytest.mark.parametrize("node", [-1, 2, 10**9, "1", None, True, 1.5])
def test_a_node_that_the_run_has_not_is_refused(stage: Stage, node: object):
    stage.run()
    with pytest.raises(InvalidArgument, match=r"node must be (from 0 to 1|a whole number)"):
        stage.tell("ready", node)  # type: ignore[arg-type]


def test_a_canceled_gang_is_canceled_whatever_its_nodes_made_of_it(stage: Stage):
    stage.run()
    stage.all_running()
    stage.controller.cancel(stage.get().id)
    assert stage.engine.stops == [("r1.1*2", "canceled")]
    answer = stage.tell("done", 1)
    assert (answer["cancel"], answer["end_as"]) == (True, "canceled")
    stage.tell("ended", 0, **FAILED)
    stage.tell("ended", 1, outcome="canceled")
    run = stage.get()
    assert (run.status, run.error) == (RunStatus.CANCELED, None)


def test_a_gang_is_canceled_while_it_gathers(stage: Stage):
    stage.run()
    stage.ready(0)
    stage.controller.cancel(stage.get().id)
    assert stage.ready(0)["cancel"] is True
    stage.tell("ended", 0, outcome="canceled")
    stage.tell("ended", 1, outcome="canceled")
    assert stage.get().status is RunStatus.CANCELED


def test_a_gang_is_canceled_while_it_waits_for_nodes(stage: Stage):
    stage.run(nodes=3)
    waiting = stage.run(nodes=2, run_id="r2")
    assert waiting.status is RunStatus.QUEUED
    assert "2 nodes of 'gang': 1 ready, 3 held by run r1" in waiting.message
    stage.controller.cancel(waiting.id)
    assert stage.get("r2").status is RunStatus.CANCELED
    assert {node.run_id for node in stage.stores.nodes.list("vision", "gang")} == {"r1"}


def test_a_run_without_a_cluster_gets_nodes_of_its_own(stage: Stage):
    run = stage.run(target="amlcompute")
    [plan] = stage.engine.plans.values()
    assert run.nodes == ("amlcompute-0", "amlcompute-1")
    assert len({node.address for node in plan.nodes}) == 2
    stage.all_running()
    for node in range(2):
        stage.tell("ended", node, outcome="completed", exit_code=0)
    assert stage.get().status is RunStatus.COMPLETED


def test_a_single_node_keeps_no_parts(stage: Stage):
    stage.run(nodes=1)
    assert stage.tell("running") == {"cancel": False, "end_as": "canceled", "roster": None}
    stage.tell("ended", outcome="completed", exit_code=0)
    assert stage.get().status is RunStatus.COMPLETED
    assert stage.stores.parts.list("r1.1") == []


@pytest.mark.parametrize("refuses", [True, False])
def test_a_gpu_that_is_not_there_is_told_or_refused_as_the_operator_says(stage: Stage, refuses: bool):
    stage.refuses_missing_gpus = refuses
    stage.open()
    stage.cluster("nc6", vm_size="STANDARD_NC6")
    run = stage.run(nodes=1, target="nc6")
    told = "vm_size='STANDARD_NC6', but this machine has no GPU"
    if refuses:
        assert run.status is RunStatus.FAILED
        assert told in run.error["error"]["message"]
    else:
        [plan] = stage.engine.plans.values()
        assert plan.notices == (f"Runyard: {told}; the whole run takes the CPU.",)
