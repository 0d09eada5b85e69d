import pytest


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
    ],
)
def test_sizes_that_cannot_be_are_refused_by_name(client, computes, body, word):
    refused = client.refusal("POST", computes, {"name": "odd", "body": body})
    assert refused["code"] == "invalid_argument"
    assert word in refused["problem"]


@pytest.mark.parametrize("name", ["local", "amlcompute", "AmlCompute", "containerinstance", "1abc", "a b", "", "../x"])
def test_reserved_and_odd_names_are_refused(client, computes, name):
    assert client.refusal("POST", computes, {"name": name, "body": {"max_nodes": 1}})["code"] == "invalid_argument"


def test_deleting_takes_the_nodes_along(client, computes):
    client.post(computes, {"name": "brief", "body": {"max_nodes": 1}})
    client.delete(f"{computes}/brief")
    assert client.refusal("GET", f"{client.here}/computes/brief/status")["code"] == "not_found"
