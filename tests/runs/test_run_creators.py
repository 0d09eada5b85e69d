"""Who submitted a run: recorded, shown and filterable; and below which runs a caller may submit."""

import pytest

from runyard.core.records.runs import RunId
from runyard.runs.children import child_record
from runyard.testing.records import AT, a_run
from tests.attempts import script_of
from tests.wire_client import WireClient

ENVIRONMENT = {"python": {"userManagedDependencies": True, "interpreterPath": "/usr/bin/python3"}}


@pytest.fixture
def mine(client: WireClient) -> str:
    run_id = f"mine-{client.workspace}"
    client.interactive_run(run_id)
    return run_id


@pytest.fixture
def script(client: WireClient, mine: str) -> WireClient:
    return script_of(client, mine)


def _listed(client: WireClient, created_by: str) -> list[str]:
    query = f"created_by={created_by}&children=1"
    return [run["id"] for run in client.get(f"{client.here}/runs?{query}")["runs"]]


def test_a_run_says_who_submitted_it(client, mine, script):
    child = f"child-{client.workspace}"
    script.interactive_run(child, parent_id=mine)
    assert client.get(f"/runs/{mine}")["created_by"] == "owner"
    assert client.get(f"/runs/{child}")["created_by"] == f"run:{mine}"
    assert _listed(client, "owner") == [mine]
    assert _listed(client, f"run:{mine}") == [child]
    assert _listed(client, "nobody") == []


def test_asking_again_leaves_who_submitted_it(client, mine, script):
    assert script.interactive_run(mine)["created_by"] == "owner"


def test_builds_and_reruns_are_of_who_asked_for_them(client, mine, script):
    asked = {"environment": {"name": "here", **ENVIRONMENT}}
    assert script.post(f"{client.here}/builds", asked)["created_by"] == f"run:{mine}"
    first = f"first-{client.workspace}"
    definition = {"command": "true", "target": "local", "environment": ENVIRONMENT}
    client.post(f"{client.here}/experiments/probe/runs", {"run_id": first, "definition": definition})
    again = script.post(f"/runs/{first}/rerun", {"run_id": f"again-{client.workspace}"})
    assert again["created_by"] == f"run:{mine}"


def test_a_child_that_a_sweep_makes_is_of_the_sweeps_creator():
    sweep = a_run("sweep", created_by="run:tuner")
    assert child_record(sweep, RunId("sweep_0"), AT).created_by == "run:tuner"


def test_a_script_submits_below_its_own_run_and_below_no_other(client, mine, script):
    other = f"other-{client.workspace}"
    client.interactive_run(other)
    address = f"{client.here}/experiments/probe/runs"
    refused = script.refusal("POST", address, {"run_id": "x", "interactive": True, "parent_id": other})
    assert (refused["status"], refused["code"]) == (403, "forbidden")
    child, below = f"child-{client.workspace}", f"below-{client.workspace}"
    script.interactive_run(child, parent_id=mine)
    assert script.interactive_run(below, parent_id=child)["parent_id"] == child


def test_the_page_shows_it(client, mine):
    _, runs, page = client.get(f"/runs/{mine}")["web_view"].partition("/runs/")
    assert b"created by owner" in client.ask("GET", runs + page).body
