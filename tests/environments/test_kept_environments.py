import os
from pathlib import Path

import pytest

from tests.attempts import node_of

KEY, WHEEL_KEY = "a" * 24, "b" * 24


class Node:
    """A node of a run, as the service meets it."""

    def __init__(self, owner, name="kept"):
        run_id = owner.interactive_run(f"{name}-{owner.workspace}")["id"]
        self.client, self.route = node_of(owner, run_id), f"/attempts/{run_id}.1/environment"

    def get(self, key=KEY):
        return self.client.get(f"{self.route}?key={key}")

    def body(self, **changes):
        wheel = self.client.put_blob(b"a wheel " + os.urandom(8))
        made = {"key": KEY, "python": "3.6", "lock": "numpy==1.16.6\n", "wheels": [[WHEEL_KEY, "a-1.0.whl", wheel]]}
        return {**made, **changes}


def test_what_one_node_made_the_next_one_is_told(client):
    node = Node(client)
    assert node.client.refusal("GET", f"{node.route}?key={KEY}")["status"] == 404
    body = node.body()
    for _ in range(2):
        node.client.post(node.route, body)
    assert Node(client, "next").get() == body


def test_wheels_of_other_machines_stay(client):
    node = Node(client)
    first, second = node.body(), node.body()
    second["wheels"][0][0] = "c" * 24
    node.client.post(node.route, first)
    node.client.post(node.route, second)
    kept = node.get()
    assert kept["lock"] == first["lock"]
    assert kept["wheels"] == [*first["wheels"], *second["wheels"]]


def test_gc_keeps_wheels_while_they_are_asked_for(client):
    node = Node(client)
    body = node.body()
    node.client.post(node.route, body)
    (_, _, sha256) = body["wheels"][0]
    assert client.post("/gc", {"older_than_seconds": 3600})["environment-locks"]["count"] == 0
    assert client.post("/blobs/missing", {"sha256": [sha256]}) == {"missing": []}
    assert client.post("/gc", {"older_than_seconds": 0})["environment-locks"]["count"] >= 1
    client.post("/gc", {"older_than_seconds": 0})
    assert client.post("/blobs/missing", {"sha256": [sha256]}) == {"missing": [sha256]}


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"key": "../" + "a" * 21}, 400),
        ({"key": None}, 400),
        ({"python": "2.7"}, 400),
        ({"python": ["3.6"]}, 400),
        ({"wheels": [[WHEEL_KEY, "../../a-1.0.whl", "0" * 64]]}, 400),
        ({"wheels": [[WHEEL_KEY, "a-1.0.whl\0", "0" * 64]]}, 400),
        ({"wheels": [[WHEEL_KEY, "a-1.0.whl", "../x"]]}, 400),
        ({"wheels": [["x", "a-1.0.whl", "0" * 64]]}, 400),
        ({"wheels": "all"}, 400),
        ({"wheels": [[WHEEL_KEY, "a-1.0.whl", "0" * 64]]}, 409),
    ],
)
def test_what_a_node_would_never_send_is_refused(client, changes, status):
    node = Node(client)
    assert node.client.refusal("POST", node.route, node.body(**changes))["status"] == status
    assert node.client.refusal("GET", f"{node.route}?key={KEY}")["status"] == 404


def test_a_token_reaches_its_own_attempt_alone(client):
    node, other = Node(client), Node(client, "other")
    body = node.body()
    assert node.client.refusal("POST", other.route, body)["status"] == 403
    assert node.client.refusal("GET", f"{other.route}?key={KEY}")["status"] == 403


def test_another_workspace_has_locks_of_its_own(client, service):
    node = Node(client)
    node.client.post(node.route, node.body())
    elsewhere = type(client)(service["url"], service["token"], workspace=f"{client.workspace}apart")
    elsewhere.put(elsewhere.here, {"exist_ok": True})
    apart = Node(elsewhere)
    assert apart.client.refusal("GET", f"{apart.route}?key={KEY}")["status"] == 404


def test_du_counts_compiled_wheels_apart(client, service):
    wheel = Path(service["home"], "environments", "wheels", "d" * 24, "a-1.0.whl")
    before = client.get("/du")
    wheel.parent.mkdir(parents=True)
    wheel.write_bytes(bytes(100_000))
    after = client.get("/du")
    assert after["environments/wheels"] - before["environments/wheels"] >= 100_000
    assert after["environments"] - before.get("environments", 0) < 100_000
    assert client.post("/gc", {"older_than_seconds": 0})["environments/wheels"]["count"] >= 1
    assert not wheel.exists()
