"""Runs made again, with the very packages of the first."""

import os
import sys

import pytest

LOCKED_SCRIPT = b"import sys\nprint('python', sys.version_info[:2])\n"
VARIABLES = {
    name: value for name, value in os.environ.items() if name in ("PATH", "HOME") or name.startswith(("PIP_", "UV_"))
}


@pytest.fixture
def first(client):
    """A run that has ended, in an environment of its own."""
    script = client.put_blob(LOCKED_SCRIPT)
    dependencies = [f"python={sys.version_info[0]}.{sys.version_info[1]}", {"pip": []}]
    definition = {
        "script": "train.py",
        "arguments": ["--rate", "0.1"],
        "target": "local",
        "environment": {"name": "mine", "python": {"condaDependencies": {"dependencies": dependencies}}},
        "runyard": {"submitter": {"variables": VARIABLES}},
    }
    body = {
        "run_id": f"first-{client.workspace}",
        "definition": definition,
        "snapshot": [["train.py", script, len(LOCKED_SCRIPT), 0o644]],
        "tags": {"team": "vision"},
        "properties": {"mine": "1"},
        "display_name": "first",
    }
    client.post(f"{client.here}/experiments/again/runs", body)
    return ended(client, body["run_id"])


def ended(client, run_id):
    return list(client.lines(f"/runs/{run_id}/stream", timeout=60))[-1]["end"]


def rerun(client, first, **more):
    return client.post(f"/runs/{first['id']}/rerun", {"run_id": f"again-{client.workspace}", **more})


def test_a_run_is_made_again_from_its_code_definition_and_lock(client, first):
    assert first["status"] == "Completed"
    made = rerun(client, first)
    assert (made["experiment"], made["display_name"], made["tags"]) == ("again", "first", {"team": "vision"})
    assert made["snapshot_id"] == first["snapshot_id"]
    assert made["properties"]["runyard.rerun_of"] == first["id"]
    assert made["definition"]["arguments"] == first["definition"]["arguments"]
    locked = made["definition"]["runyard"]["locked"]
    assert locked == {"run": first["id"], "lock": first["environment_lock"]}
    again = ended(client, made["id"])
    assert again["status"] == "Completed", again["error"]
    assert again["environment_lock"] == first["environment_lock"]


def test_a_rerun_that_is_asked_for_twice_is_one_run(client, first):
    again = rerun(client, first, experiment="other", display_name="second")
    assert rerun(client, first, experiment="other")["number"] == again["number"]
    assert (again["experiment"], again["display_name"]) == ("other", "second")
    ended(client, again["id"])


def test_a_run_that_nobody_started_cannot_be_made_again(client):
    client.interactive_run(f"alone-{client.workspace}")
    refused = client.refusal("POST", f"/runs/alone-{client.workspace}/rerun", {"run_id": "x"})
    assert (refused["code"], "not started by Runyard" in refused["problem"]) == ("invalid_argument", True)


@pytest.mark.parametrize("body", [{}, {"run_id": "../x"}, {"run_id": "x", "experiment": "a b"}, {"run_id": 7}])
def test_names_that_no_run_could_have_are_refused(client, body):
    client.interactive_run(f"named-{client.workspace}", definition={"script": "a.py"})
    assert client.refusal("POST", f"/runs/named-{client.workspace}/rerun", body)["code"] == "invalid_argument"


def test_a_run_that_is_not_there_is_not_found(client):
    assert client.refusal("POST", "/runs/no-such-run/rerun", {"run_id": "x"})["code"] == "not_found"
