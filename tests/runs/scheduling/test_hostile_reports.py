"""A script can read its attempt's token, and so tell what it likes in the name of its supervisor."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runyard.core.errors import InvalidArgument
from runyard.core.records.runs import RunStatus
from runyard.storage.sql.stores import open_stores
from tests.runs.scheduling.scripted import Stage


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stores = open_stores(f"sqlite:///{tmp_path}/runyard.db")
    made = Stage(stores, tmp_path)
    made.cluster()
    made.run()
    made.all_running()
    yield made
    stores.close()


@pytest.mark.parametrize("state", ["ended", "failing"])
@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({}, "outcome is missing"),
        ({"outcome": "great"}, "outcome must be one of completed, failed, canceled, got 'great'"),
        ({"outcome": 5}, "outcome"),
        ({"outcome": ["failed"]}, "outcome"),
        ({"outcome": "failed", "error": "text"}, "error must be an object"),
        ({"outcome": "failed", "failed_at": "yesterday"}, "failed_at must be an ISO time"),
        ({"outcome": "failed", "failed_at": "2026-01-01"}, "failed_at"),
        ({"outcome": "failed", "rank": "one"}, "rank must be a whole number"),
        ({"outcome": "failed", "failed_node": True}, "failed_node"),
        ({"outcome": "failed", "warnings": 7}, "warnings must be a list"),
        ({"outcome": "failed", "last_lines": {"1": "text"}}, "last_lines"),
        ({"outcome": "completed", "outputs": {"out": "many"}}, "outputs"),
        ({"outcome": "completed", "undelivered": "none"}, "undelivered"),
    ],
)
def test_an_end_that_is_none_changes_nothing(stage: Stage, state: str, facts: dict[str, Any], said: str):
    with pytest.raises(InvalidArgument, match=said):
        stage.tell(state, 1, **facts)
    stage.tell("ended", 0, outcome="completed", exit_code=0)
    assert stage.get().status is RunStatus.RUNNING
    stage.tell("ended", 1, outcome="failed", error={"code": "UserError", "message": "It broke."}, rank=1, exit_code=3)
    assert stage.get().status is RunStatus.FAILED


@pytest.mark.parametrize("state", ["preparing", "ready", "finalizing", "ended"])
@pytest.mark.parametrize("node", ["1", -1, True, 1.5])
def test_a_node_that_is_no_number_is_refused_in_every_state(stage: Stage, state: str, node: Any):
    with pytest.raises(InvalidArgument, match=r"node must be (from 0 to 1|a whole number)"):
        stage.tell(state, node, outcome="completed")


def test_a_long_message_is_cut(stage: Stage):
    stage.tell("preparing", 1, message="x" * 300_000)
    assert stage.get().message == "gang-1: " + "x" * 2000


def test_a_late_report_of_preparing_leaves_the_message_of_a_running_run(stage: Stage):
    stage.run(nodes=1, run_id="single")
    stage.tell("preparing", attempt="single.1", message="Downloading packages.")
    assert stage.get("single").message == "Downloading packages."
    stage.tell("running", attempt="single.1")
    stage.tell("preparing", attempt="single.1", message="Downloading packages.")
    assert (stage.get("single").status, stage.get("single").message) == (RunStatus.RUNNING, "")


@pytest.mark.parametrize("started_at", ["1999-01-01T00:00:00Z", "2999-01-01T00:00:00Z"])
def test_the_start_of_a_run_that_only_reported_its_end_lies_within_the_run(stage: Stage, started_at: str):
    """The node's clock is wrong by years."""
    stage.run(nodes=1, run_id="single")
    stage.tell("ended", attempt="single.1", outcome="completed", exit_code=0, started_at=started_at, lock="a==1")
    run = stage.get("single")
    assert (run.status, run.environment_lock) == (RunStatus.COMPLETED, "a==1")
    assert run.started_at is not None
    assert run.ended_at is not None
    assert run.created_at <= run.started_at <= run.ended_at
    reached = [event.text for event in stage.stores.runs.events(run.id)]
    assert reached[-3:] == ["Starting", "Running", "Completed"]


def test_a_run_that_is_canceled_has_not_run_afterwards(stage: Stage):
    stage.run(nodes=1, run_id="single")
    stage.stores.runs.move(stage.get("single"), RunStatus.CANCEL_REQUESTED)
    stage.tell("ended", attempt="single.1", outcome="canceled", started_at="2026-01-01T00:00:00Z")
    assert [event.text for event in stage.stores.runs.events(stage.get("single").id)][-2:] == [
        "CancelRequested",
        "Canceled",
    ]
