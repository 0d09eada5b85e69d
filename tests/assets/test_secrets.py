from pathlib import Path

import pytest


def test_a_secret_comes_back_and_lies_encrypted(client, service):
    client.put(f"{client.here}/secrets/password", {"value": "hunter2-in-clear"})
    client.put(f"{client.here}/secrets/password", {"value": "hunter3-in-clear"})
    assert client.get(f"{client.here}/secrets/password") == {"value": "hunter3-in-clear"}
    assert client.get(f"{client.here}/secrets") == {"secrets": [{"name": "password"}]}
    for path in Path(service["home"]).rglob("*"):
        if path.is_file():
            assert b"-in-clear" not in path.read_bytes(), path
    assert (Path(service["home"]) / "secrets.key").stat().st_mode & 0o077 == 0


def test_a_deleted_secret_is_gone(client):
    client.put(f"{client.here}/secrets/brief", {"value": "x"})
    client.delete(f"{client.here}/secrets/brief")
    client.delete(f"{client.here}/secrets/brief")
    assert client.refusal("GET", f"{client.here}/secrets/brief")["code"] == "not_found"


@pytest.mark.parametrize("value", [None, 7, ["x"], "x" * (2**20 + 1)])
def test_a_value_that_is_no_short_text_is_refused(client, value):
    refused = client.refusal("PUT", f"{client.here}/secrets/odd", {"value": value})
    assert refused["code"] == "invalid_argument"


def test_secrets_of_one_workspace_are_not_those_of_another(client):
    client.put(f"{client.here}/secrets/mine", {"value": "x"})
    client.put("/workspaces/other-space", {"exist_ok": True})
    assert client.refusal("GET", "/workspaces/other-space/secrets/mine")["code"] == "not_found"
