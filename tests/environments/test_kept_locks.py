"""Locks and wheels of environments that nodes send: the first counts for everybody after it."""

import pytest

KEY, WHEEL, OTHER_WHEEL = "a" * 24, "b" * 24, "c" * 24


@pytest.fixture
def put(client):
    """Posts what a node of a run has made; gives what the service keeps then."""

    def send(run_id, lock, wheels=()):
        rows = [[key, name, client.put_blob(content)] for key, name, content in wheels]
        address = f"/attempts/{run_id}.1/environment"
        client.post(address, {"key": KEY, "python": "3.11", "lock": lock, "wheels": rows})
        return client.get(f"{address}?key={KEY}")

    return send


def test_a_node_cannot_replace_the_lock_of_another(client, put):
    first, second = (client.interactive_run(f"{name}-{client.workspace}")["id"] for name in ("first", "second"))
    kept = put(first, "six==1.16.0\n", [(WHEEL, "a-1-py3-none-any.whl", b"good")])
    assert put(second, "six==6.6.6\n", [(WHEEL, "a-1-py3-none-any.whl", b"bad")]) == kept
    assert put(second, "six==1.16.0\n", [(WHEEL, "a-1-py3-none-any.whl", b"bad")]) == kept


def test_wheels_for_machines_of_another_kind_are_added(client, put):
    run = client.interactive_run(f"run-{client.workspace}")["id"]
    put(run, "six==1.16.0\n", [(WHEEL, "a-1-py3-none-any.whl", b"one")])
    kept = put(run, "six==1.16.0\n", [(OTHER_WHEEL, "a-1-py3-none-any.whl", b"two")])
    assert [key for key, _, _ in kept["wheels"]] == [WHEEL, OTHER_WHEEL]
