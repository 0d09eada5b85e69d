"""Runs that wait for the nodes of a cluster; the engine is played by the test."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from runyard.core.records.assets import AssetKind
from runyard.core.records.runs import RunId, RunStatus
from runyard.storage.sql.stores import open_stores
from tests.runs.scheduling.scripted import Stage


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stores = open_stores(f"sqlite:///{tmp_path}/runyard.db")
    made = Stage(stores, tmp_path)
    made.cluster(max_nodes=1)
    yield made
    stores.close()


def test_a_long_queue_is_served_to_its_end_and_in_its_order(stage: Stage):
    names = [f"r{number}" for number in range(45)]
    for name in names:
        stage.run(nodes=1, run_id=name)
    assert [stage.get(name).status for name in names] == [RunStatus.STARTING, *[RunStatus.QUEUED] * 44]
    stage.stores.assets.add("vision", AssetKind.COMPUTE, "gang", {"max_nodes": 44}, {})
    stage.controller.reconcile()
    assert [plan.run_id for plan in stage.engine.plans.values()] == names[:44]
    assert stage.get("r44").message.startswith("Waiting for 1 node of 'gang': 0 ready, 44 held by runs r0, ")


def test_whoever_waits_learns_behind_whom(stage: Stage):
    for name in ("r1", "r2", "r3"):
        stage.run(nodes=1, run_id=name)
    assert stage.get("r2").message == "Waiting for 1 node of 'gang': 0 ready, 1 held by run r1."
    assert stage.get("r3").message == "Waiting for nodes of 'gang' behind run r2."


def test_children_of_one_run_are_not_told_of_one_another(stage: Stage):
    definition = stage.run(nodes=1).definition
    first = stage.get()
    for name, parent in (("c1", "r1"), ("c2", "r1"), ("other", None)):
        child = replace(first, id=RunId(name), status=RunStatus.NOT_STARTED, parent_id=parent, definition=definition)
        stage.stores.runs.create(replace(child, ticket="", nodes=(), attempt=0, message=""))
        stage.controller.advance(RunId(name))
    assert stage.get("c2").message == "Waiting for nodes of 'gang'."
    assert stage.get("other").message == "Waiting for nodes of 'gang' behind run c2."


def test_a_cluster_that_is_gone_fails_all_that_wait_for_it(stage: Stage):
    for number in range(25):
        stage.run(nodes=1, run_id=f"r{number}")
    stage.stores.assets.delete("vision", AssetKind.COMPUTE, "gang")
    stage.controller.reconcile()
    assert {stage.get(f"r{number}").status for number in range(1, 25)} == {RunStatus.FAILED}


def test_idle_nodes_leave_down_to_the_minimum(stage: Stage):
    stage.cluster("shrinks", min_nodes=1, max_nodes=2, idle_seconds_before_scaledown=60)
    for name in ("r1", "r2"):
        assert stage.run(nodes=1, target="shrinks", run_id=name).status is RunStatus.STARTING
    for name in ("r1", "r2"):
        stage.tell("ended", attempt=f"{name}.1", outcome="completed")
    assert len(stage.stores.nodes.list("vision", "shrinks")) == 2
    stage.clock.advance(datetime.now(UTC) - stage.clock.now() + timedelta(hours=1))  # the store has a clock of its own
    stage.controller.reconcile()
    assert len(stage.stores.nodes.list("vision", "shrinks")) == 1
