"""Supervisors and nodes that are gone, engines that do not answer, and runs that are started again."""

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from runyard.core.ports.engine import NodeTaskPhase, ObservedTask
from runyard.core.principal import OWNER
from runyard.core.records.runs import RunId, RunStatus
from runyard.runs.history.logs import Logs
from runyard.runs.scheduling import controller
from runyard.storage.sql.stores import open_stores
from runyard.testing.records import a_run
from tests.grants import access_to, node_of
from tests.runs.scheduling.scripted import FullDisk, Stage

ALIVE = ObservedTask(NodeTaskPhase.ALIVE)
LOST = ObservedTask(NodeTaskPhase.LOST)
GONE = ObservedTask(NodeTaskPhase.GONE, "its raylet was killed")
LOG = "azureml-logs/70_driver_log_0.txt"
TICKET = "r1.1*2"


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stores = open_stores(f"sqlite:///{tmp_path}/runyard.db")
    made = Stage(stores, tmp_path)
    made.cluster()
    yield made
    stores.close()


def lose(stage: Stage, node: int, seen: ObservedTask = GONE, ticket: str = TICKET) -> None:
    """The engine sees that of the node from now on, and the controller looks."""
    stage.engine.phases[ticket][node] = seen
    stage.controller.reconcile()


def test_a_lost_supervisor_is_recovered_on_its_own_node(stage: Stage):
    stage.run()
    stage.all_running()
    lose(stage, 1, LOST)
    assert stage.engine.recovered == [(TICKET, 1)]
    assert stage.get().status is RunStatus.RUNNING


def test_a_part_that_no_recovery_helps_fails_the_run(stage: Stage):
    stage.run()
    stage.all_running()
    for _ in range(4):
        lose(stage, 1, LOST)
    stage.tell("ended", 0, outcome="failed")
    run = stage.get()
    assert run.status is RunStatus.FAILED
    assert "gang-1" in run.error["error"]["message"]


def test_a_part_that_has_ended_is_not_recovered(stage: Stage):
    stage.run()
    stage.all_running()
    stage.tell("ended", 1, outcome="completed", exit_code=0)
    lose(stage, 1, LOST)
    assert stage.engine.recovered == []
    assert stage.get().status is RunStatus.RUNNING


def test_a_lost_node_fails_the_run_and_stops_the_others(stage: Stage):
    stage.run()
    stage.all_running()
    lose(stage, 1)
    assert stage.engine.stops == [(TICKET, "failed")]
    stage.tell("ended", 0, outcome="failed")
    run = stage.get()
    assert run.status is RunStatus.FAILED
    assert "gang-1" in run.error["error"]["message"]
    assert "its raylet was killed" in run.error["error"]["message"]


def test_a_run_all_of_whose_nodes_are_gone_ends(stage: Stage):
    stage.run()
    stage.all_running()
    stage.engine.phases[TICKET] = [GONE, GONE]
    stage.controller.reconcile()
    stage.controller.reconcile()
    assert stage.get().status is RunStatus.FAILED


def test_a_canceled_run_whose_node_is_gone_is_canceled(stage: Stage):
    stage.run()
    stage.all_running()
    stage.controller.cancel(stage.get().id)
    lose(stage, 1)
    stage.tell("ended", 0, outcome="canceled")
    assert stage.get().status is RunStatus.CANCELED


def test_nodes_that_were_not_told_to_stop_hear_it_from_a_service_that_came_back(stage: Stage):
    stage.run()
    stage.all_running()
    stage.engine.is_away = True
    stage.tell("ended", 1, outcome="failed", exit_code=1, error={"code": "UserError", "message": "x"})
    assert stage.engine.stops == []
    stage.engine.is_away = False
    stage.open()
    lose(stage, 1, LOST)
    assert stage.engine.stops == [(TICKET, "failed")]


def test_a_cancel_that_the_engine_did_not_hear_is_told_later(stage: Stage):
    stage.run()
    stage.all_running()
    stage.engine.is_away = True
    stage.controller.cancel(stage.get().id)
    stage.controller.reconcile()
    assert stage.engine.stops == []
    stage.engine.is_away = False
    for _ in range(2):
        stage.controller.reconcile()
    assert stage.engine.stops == [(TICKET, "canceled")]


def test_an_engine_that_does_not_answer_is_no_loss(stage: Stage):
    stage.run()
    stage.all_running()
    stage.engine.is_away = True
    for _ in range(10):
        stage.controller.reconcile()
    run = stage.get()
    assert (run.status, run.message) == (RunStatus.RUNNING, "The cluster does not answer.")
    stage.engine.is_away = False
    stage.controller.reconcile()
    assert stage.get().message == ""


def test_a_cluster_elsewhere_that_is_away_at_the_start_is_asked_again(stage: Stage):
    stage.cluster("far", engine="ray")
    stage.far.is_away = True
    run = stage.run(target="far")
    assert run.status is RunStatus.STARTING
    assert run.message == "Not started yet. The cluster does not answer."
    stage.controller.reconcile()
    stage.far.is_away = False
    stage.controller.reconcile()
    [plan] = stage.far.plans.values()
    assert plan.attempt_id == "r1.1"
    assert plan.shares_files is False
    assert plan.env["RUNYARD_URL"] == "http://far"


def test_an_attempt_that_was_half_submitted_is_submitted_again(stage: Stage):
    stage.run()
    stage.engine.plans.clear()
    lose(stage, 1, LOST)
    assert list(stage.engine.plans) == [TICKET]
    stage.ready(1)
    lose(stage, 1, LOST)
    assert stage.engine.recovered == [(TICKET, 1)]


def test_a_lost_node_is_followed_by_another_attempt_where_the_run_allows_it(stage: Stage):
    stage.run(RUNYARD_MAX_ATTEMPTS="2")
    stage.all_running()
    stage.logs.append("r1", LOG, 0, b"epoch 1\n")
    lose(stage, 1)
    stage.tell("ended", 0, outcome="failed")
    waiting = stage.get()
    assert (waiting.status, waiting.ticket, waiting.nodes) == (RunStatus.QUEUED, "", ())
    assert "attempt 2 of 2" in waiting.warnings[-1]
    assert "restart" in {event.kind for event in stage.stores.runs.events(waiting.id)}
    stage.controller.reconcile()
    assert stage.get().ticket == "r1.2"
    plan = stage.engine.plans["r1.2*2"]
    assert plan.restores_outputs
    assert plan.secret != stage.engine.plans[TICKET].secret
    stage.all_running(attempt="r1.2")
    stage.engine.phases["r1.2*2"][0] = GONE
    stage.controller.reconcile()
    stage.tell("ended", 1, attempt="r1.2", outcome="failed")
    run = stage.get()
    assert run.status is RunStatus.FAILED
    assert run.exit_facts["restarts"] == {"lost_node": 1}


def test_nothing_of_an_attempt_that_was_given_up_is_taken(stage: Stage):
    stage.run(RUNYARD_MAX_ATTEMPTS="2")
    stage.all_running()
    lose(stage, 1)
    stage.tell("ended", 0, outcome="failed")
    before = stage.get()
    assert stage.tell("ended", 1, outcome="completed")["cancel"] is True
    assert stage.get() == before
    stage.controller.reconcile()
    assert stage.tell("running", 1)["cancel"] is True
    assert stage.get().status is RunStatus.STARTING


def test_the_log_of_a_second_attempt_goes_on_behind_the_first(stage: Stage):
    stage.run(RUNYARD_MAX_ATTEMPTS="2")
    stage.all_running()
    logs = Logs(stage.logs, access_to(stage.stores))
    logs.append(OWNER, stage.get().id, LOG, 0, b"epoch 1\n")
    lose(stage, 1)
    stage.tell("ended", 0, outcome="failed")
    stage.controller.reconcile()
    node = node_of("r1.2")
    assert logs.sizes(node, node.run_id) == {LOG: 0}
    for _ in range(2):
        assert logs.append(node, node.run_id, LOG, 0, b"again\n") == 6
    first, note, again = stage.logs.read("r1", LOG).decode().partition("\n--- ")
    assert (first, note, again.splitlines()[-1]) == ("epoch 1\n", "\n--- ", "again")
    assert "attempt 2 of 2" in again


def test_a_script_that_fails_by_itself_is_not_started_again(stage: Stage):
    stage.run(RUNYARD_MAX_ATTEMPTS="3")
    stage.all_running()
    stage.tell("ended", 1, outcome="failed", exit_code=1, error={"code": "UserError", "message": "x"})
    stage.tell("ended", 0, outcome="failed")
    assert stage.get().status is RunStatus.FAILED


def test_a_canceled_run_is_not_started_again(stage: Stage):
    stage.run(RUNYARD_MAX_ATTEMPTS="3")
    stage.all_running()
    stage.controller.cancel(stage.get().id)
    stage.engine.phases[TICKET] = [GONE, GONE]
    stage.controller.reconcile()
    stage.controller.reconcile()
    assert stage.get().status is RunStatus.CANCELED


def test_a_run_on_one_node_is_started_again_too(stage: Stage):
    stage.run(nodes=1, RUNYARD_MAX_ATTEMPTS="2")
    stage.tell("running")
    lose(stage, 0, ticket="r1.1")
    stage.controller.reconcile()
    assert stage.engine.plans["r1.2"].restores_outputs
    assert stage.get().status is RunStatus.STARTING


def test_a_supervisor_that_was_killed_counts_as_a_lost_node(stage: Stage):
    stage.run(nodes=1, target="local", RUNYARD_MAX_ATTEMPTS="2")
    stage.tell("running")
    stage.tell("ended", outcome="failed", lost=True, error={"code": "ServiceError", "message": "Killed."})
    stage.controller.reconcile()
    assert stage.get().ticket == "r1.2"
    assert "r1.2" in stage.engine.plans


def test_all_runs_without_a_cluster_are_started_again(stage: Stage):
    for name in ("r1", "r2"):
        stage.run(nodes=1, target="local", run_id=name, RUNYARD_MAX_ATTEMPTS="2")
        stage.tell("ended", attempt=f"{name}.1", outcome="failed", lost=True)
    stage.controller.reconcile()
    assert {"r1.2", "r2.2"} <= stage.engine.plans.keys()


def test_a_port_that_a_stranger_took_is_worth_two_more_tries(stage: Stage):
    stage.run()
    taken = {"outcome": "failed", "error": {"code": "PortTaken", "message": "Port 6105 was taken."}}
    for number in (1, 2, 3):
        attempt = f"r1.{number}"
        stage.all_running(attempt=attempt)
        stage.tell("ended", 0, attempt=attempt, **taken)
        stage.tell("ended", 1, attempt=attempt, outcome="failed")
        stage.controller.reconcile()
    run = stage.get()
    assert run.status is RunStatus.FAILED
    assert run.exit_facts["restarts"] == {"port_taken": 2}
    assert any("Port 6105 was taken" in warning for warning in run.warnings)
    assert not stage.engine.plans["r1.3*2"].restores_outputs


def test_an_environment_whose_node_is_gone_is_built_on_another(stage: Stage):
    stage.cluster("far", engine="ray")
    environment = {"python": {"condaDependencies": {"dependencies": []}}}
    stage.stores.runs.create(a_run(target="far", definition={"script": "train.py", "environment": environment}))
    stage.controller.advance(stage.get().id)
    assert stage.get().status is RunStatus.PREPARING
    stage.far.phases["r1.1"] = [GONE]
    stage.controller.reconcile()
    assert stage.get().ticket == "r1.2"
    assert stage.far.plans["r1.2"].kind == "prepare"
    assert stage.tell("prepared", attempt="r1.1")["cancel"] is True


def test_a_run_that_we_cannot_handle_keeps_no_other_from_going_on(stage: Stage) -> None:
    for run_id, environment in (("bad", 5), ("good", {})):
        definition = {"target": "local", "script": "train.py", "environment": environment}
        stage.stores.runs.create(a_run(run_id, target="local", definition=definition, status=RunStatus.NOT_STARTED))
    stage.controller.reconcile()
    assert stage.get("good").status is not RunStatus.NOT_STARTED


def test_the_controller_goes_on_after_a_mishap_that_it_could_not_even_print(stage: Stage, monkeypatch) -> None:
    faults, reconciled_again = iter([1, 0]), threading.Event()

    def reconcile() -> None:
        if next(faults, 0):
            raise RuntimeError("no space for anything")
        reconciled_again.set()

    monkeypatch.setattr(sys, "stderr", FullDisk())
    monkeypatch.setattr(controller, "_RECONCILE_SECONDS", 0.01)
    monkeypatch.setattr(stage.controller, "reconcile", reconcile)
    stage.controller.start()
    try:
        assert reconciled_again.wait(20)
    finally:
        stage.controller.stop()


@pytest.mark.parametrize("status", [RunStatus.RUNNING, RunStatus.CANCEL_REQUESTED])
def test_a_run_of_a_kind_whose_package_was_removed_can_be_canceled(stage: Stage, status: RunStatus) -> None:
    stage.stores.runs.create(a_run("left", status, type="gone.kind"))
    stage.controller.reconcile()
    stage.controller.cancel(RunId("left"))
    assert stage.get("left").status is RunStatus.CANCELED
