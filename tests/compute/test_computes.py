import sys

import pytest

from tests.attempts import script_of

OWN_PYTHON = {"python": {"userManagedDependencies": True, "interpreterPath": sys.executable}}


@pytest.fixture
def computes(client):
    return f"{client.here}/assets/computes"


def test_a_new_cluster_is_there_with_its_minimum(client, computes):
    made = client.post(computes, {"name": "cpu", "body": {"min_nodes": 2, "max_nodes": 4, "vm_size": "STANDARD_D2"}})
    assert made["body"]["provisioning_state"] == "Succeeded"
    assert made["body"]["idle_seconds_before_scaledown"] == 1800
    nodes = []
    while len(nodes) < 2:  # the controller brings them within moments; a hung one fails by the test's time limit
        nodes = client.get(f"{client.here}/computes/cpu/nodes")["nodes"]
    status = client.get(f"{client.here}/computes/cpu/status")
    assert (status["current"], status["target"], status["counts"]["idle"]) == (2, 2, 2)
    assert status["allocation_state"] == "Steady"


def test_a_cluster_without_nodes_is_steady_at_none(client, computes):
    client.post(computes, {"name": "empty", "body": {"max_nodes": 4}})
    status = client.get(f"{client.here}/computes/empty/status")
    assert (status["current"], status["target"], set(status["counts"].values())) == (0, 0, {0})
    assert client.get(f"{client.here}/computes/empty/nodes") == {"nodes": []}


def test_a_second_create_changes_the_first(client, computes):
    client.post(computes, {"name": "same", "body": {"max_nodes": 2}})
    client.post(computes, {"name": "same", "body": {"max_nodes": 3}})
    listed = client.get(computes)["assets"]
    assert [(asset["name"], asset["version"], asset["body"]["max_nodes"]) for asset in listed] == [("same", 1, 3)]
    assert client.patch(f"{computes}/same", {"body": {"max_nodes": 5}})["body"]["max_nodes"] == 5
    assert client.refusal("PATCH", f"{computes}/same", {"body": {"min_nodes": 9}})["code"] == "invalid_argument"
    crowd = {"body": {"min_nodes": 5000, "max_nodes": 5000}}
    assert "at most 64" in client.refusal("PATCH", f"{computes}/same", crowd)["problem"]


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({}, "max_nodes"),
        ({"max_nodes": 0}, "max_nodes"),
        ({"max_nodes": "4"}, "max_nodes"),
        ({"max_nodes": True}, "max_nodes"),
        ({"max_nodes": 2, "min_nodes": 3}, "min_nodes"),
        ({"max_nodes": 2, "min_nodes": -1}, "min_nodes"),
        ({"max_nodes": 2, "vm_priority": "spot"}, "vm_priority"),
        ({"max_nodes": 2, "idle_seconds_before_scaledown": -5}, "idle_seconds_before_scaledown"),
        ({"max_nodes": 2, "engine": "slurm"}, "engine"),
        ({"max_nodes": 2, "address": "10.0.0.1:6379"}, "address"),
        ({"max_nodes": 2, "engine": "local", "address": "10.0.0.1:6379"}, "address"),
        ({"max_nodes": 2, "engine": "ray", "address": "file:///etc/passwd"}, "address"),
        ({"max_nodes": 2, "engine": "ray", "address": "host:99999"}, "address"),
        ({"max_nodes": 2, "resources": [4]}, "resources"),
        ({"max_nodes": 2, "resources": {"tpu": 1}}, "tpu"),
        ({"max_nodes": 2, "resources": {"cpu": -1}}, "cpu"),
        ({"max_nodes": 2, "resources": {"cpu": "4"}}, "cpu"),
        ({"max_nodes": 2, "resources": {"gpu": 0.5}}, "gpu"),
        ({"max_nodes": 2, "resources": {"gpu": 10**9}}, "gpu'] must be a number from 0 to 1000, got 1000000000"),
        ({"max_nodes": 2, "resources": {"memory_gb": 10**300}}, "memory_gb"),
        ({"max_nodes": 10**9}, "max_nodes must be a whole number from 1 to 10000, got 1000000000"),
        ({"max_nodes": 10**40}, "max_nodes"),
        ({"max_nodes": 5000, "min_nodes": 5000}, "min_nodes must be at most 64 there, got 5000"),
        ({"max_nodes": 2, "idle_seconds_before_scaledown": 10**15}, "idle_seconds_before_scaledown"),
        ({"is_attached": True}, "attached"),
    ],
)
def test_sizes_that_cannot_be_are_refused_by_name(client, computes, body, word):
    refused = client.refusal("POST", computes, {"name": "odd", "body": body})
    assert refused["code"] == "invalid_argument"
    assert word in refused["problem"]
    assert len(refused["problem"]) < 300


@pytest.mark.parametrize("name", ["local", "amlcompute", "AmlCompute", "containerinstance", "1abc", "a b", "", "../x"])
def test_reserved_and_odd_names_are_refused(client, computes, name):
    assert client.refusal("POST", computes, {"name": name, "body": {"max_nodes": 1}})["code"] == "invalid_argument"


def test_deleting_takes_the_nodes_along(client, computes):
    client.post(computes, {"name": "brief", "body": {"max_nodes": 1}})
    client.delete(f"{computes}/brief")
    assert client.refusal("GET", f"{client.here}/computes/brief/status")["code"] == "not_found"


@pytest.mark.parametrize(
    "place",
    [{"engine": "ray"}, {"address": "10.0.0.1:6379"}, {"settings": {"folder": "/etc"}}, {"resources": {"cpu": 1}}],
)
def test_a_script_cannot_send_the_service_to_other_machines(client, computes, place):
    run_id = f"{client.workspace}-script"
    client.post(f"{client.here}/experiments/e/runs", {"run_id": run_id, "interactive": True})
    script = script_of(client, run_id)
    script.post(computes, {"name": "own", "body": {"max_nodes": 1}})
    assert script.refusal("POST", computes, {"name": "far", "body": {"max_nodes": 1, **place}})["code"] == "forbidden"
    assert script.refusal("PATCH", f"{computes}/own", {"body": place})["code"] == "forbidden"


def test_a_cluster_is_not_moved_under_its_runs(client, computes):
    client.post(computes, {"name": "busy", "body": {"max_nodes": 1}})
    definition = {"target": "busy", "command": "sleep 60", "environment": OWN_PYTHON}
    run_id = f"{client.workspace}-busy"
    client.post(f"{client.here}/experiments/e/runs", {"run_id": run_id, "definition": definition})
    moved = {"name": "busy", "body": {"max_nodes": 1, "engine": "local"}}
    assert client.refusal("POST", computes, moved)["code"] == "conflict"
    assert run_id in client.refusal("PATCH", f"{computes}/busy", {"body": {"engine": "local"}})["problem"]
    client.patch(f"{computes}/busy", {"body": {"max_nodes": 2}})
    client.post(f"/runs/{run_id}/cancel")
    client.get(f"/runs/{run_id}/wait?ended=1&timeout=30")
    assert client.post(computes, moved)["body"]["engine"] == "local"
