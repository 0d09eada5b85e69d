"""Passwords of container registries: told to the node that builds, and to nobody else."""

from pathlib import Path

import pytest

from runyard.server.app import PREFIX
from tests.attempts import node_of, script_of
from tests.serving.scoring_models import inference, registered, submitter

PASSWORD = "pa55-of-the-registry"
LOGIN = {"address": "registry.example:5000", "username": "ada-of-the-registry", "password": PASSWORD}
ENVIRONMENT = {"docker": {"baseImage": "team/net:1", "baseImageRegistry": LOGIN}}


def assert_nowhere(home: str) -> None:
    for path in Path(home).rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert b"of-the-registry" not in content, path


def provisions(client, run_id):
    return node_of(client, run_id).get(f"/attempts/{run_id}.1/packages")


def test_a_runs_password_is_for_its_node_and_in_no_record_or_file(client, service):
    run_id = f"login-{client.workspace}"
    made = client.interactive_run(run_id, definition={"environment": ENVIRONMENT, "target": "c"})
    assert made["definition"]["environment"]["docker"]["baseImageRegistry"] == {"address": "registry.example:5000"}
    assert_nowhere(service["home"])
    assert provisions(client, run_id)["registries"] == {
        "registry.example:5000": {"username": "ada-of-the-registry", "password": PASSWORD}
    }


def test_an_environment_keeps_no_password_and_runs_of_it_have_it(client, service):
    asset = client.post(f"{client.here}/assets/environments", {"name": "mine", "body": ENVIRONMENT})
    assert "password" not in asset["body"]["docker"]["baseImageRegistry"]
    changed = client.patch(f"{client.here}/assets/environments/mine", {"body": ENVIRONMENT})
    assert "username" not in changed["body"]["docker"]["baseImageRegistry"]
    assert_nowhere(service["home"])
    run_id = f"later-{client.workspace}"
    client.interactive_run(run_id, definition={"environment": asset["body"]})
    assert provisions(client, run_id)["registries"]["registry.example:5000"]["password"] == PASSWORD


def test_a_deployment_keeps_no_password(client, service):
    given = inference(client)
    given["environment"] = {**given["environment"], **ENVIRONMENT}
    body = {"name": "quiet", "models": [registered(client)], "inference": given, "submitter": submitter()}
    client.post(
        f"{client.here}/assets/images", {"name": "image", "body": {k: body[k] for k in ("models", "inference")}}
    )
    made = client.post(f"{client.here}/services", {**body, "type": "ACI"})
    assert made["inference"]["environment"]["docker"]["baseImageRegistry"] == {"address": "registry.example:5000"}
    client.delete(f"{client.here}/services/quiet")
    assert_nowhere(service["home"])


def test_the_last_password_that_was_given_counts(client):
    run_id = f"again-{client.workspace}"
    for number, password in enumerate(("old", "new")):
        login = {"docker": {"baseImage": "a", "baseImageRegistry": {**LOGIN, "password": password}}}
        client.interactive_run(f"{run_id}-{number}", definition={"environment": login})
    assert provisions(client, f"{run_id}-0")["registries"]["registry.example:5000"]["password"] == "new"


@pytest.mark.parametrize(
    ("docker", "known"),
    [
        ({"baseImage": "registry.example:5000/other"}, True),
        ({"baseDockerfile": "FROM registry.example:5000/a AS b"}, True),
        ({"baseImage": "elsewhere.example/net"}, False),
        ({"baseDockerfile": "FROM debian"}, False),
        ({}, False),
    ],
)
def test_a_node_is_told_the_logins_that_its_image_can_need(client, docker, known):
    client.interactive_run(f"first-{client.workspace}", definition={"environment": ENVIRONMENT})
    run_id = f"other-{client.workspace}"
    client.interactive_run(run_id, definition={"environment": {"docker": docker}})
    assert bool(provisions(client, run_id)["registries"]) is known


def test_another_workspaces_password_is_not_told(client):
    client.interactive_run(f"first-{client.workspace}", definition={"environment": ENVIRONMENT})
    client.put("/workspaces/elsewhere", {"exist_ok": True})
    run_id = f"there-{client.workspace}"
    bare = {"docker": {"baseImage": "team/net:1", "baseImageRegistry": {"address": "registry.example:5000"}}}
    client.post(
        "/workspaces/elsewhere/experiments/e/runs",
        {"run_id": run_id, "interactive": True, "definition": {"environment": bare}},
    )
    assert provisions(client, run_id)["registries"] == {}


def test_a_scripts_token_is_not_told(client):
    run_id = f"script-{client.workspace}"
    client.interactive_run(run_id, definition={"environment": ENVIRONMENT})
    assert script_of(client, run_id).refusal("GET", f"/attempts/{run_id}.1/packages")["status"] == 403


def test_docker_hub_is_meant_where_no_registry_is_named(client):
    run_id = f"hub-{client.workspace}"
    login = {"username": "ada", "password": "x"}
    client.interactive_run(
        run_id, definition={"environment": {"docker": {"baseImage": "ada/net", "baseImageRegistry": login}}}
    )
    assert provisions(client, run_id)["registries"] == {"docker.io": login}


@pytest.mark.parametrize(
    "registry",
    [
        {**LOGIN, "address": "host/../../etc"},
        {**LOGIN, "address": "a\nb"},
        {**LOGIN, "password": ["x"]},
        {**LOGIN, "password": "x" * 100_000},
        "registry.example",
    ],
)
def test_a_login_that_is_none_is_refused(client, registry):
    body = {"name": "bad", "body": {"docker": {"baseImage": "a", "baseImageRegistry": registry}}}
    assert client.refusal("POST", f"{client.here}/assets/environments", body)["code"] == "invalid_argument"


def test_a_script_adds_a_login_and_replaces_none(client):
    run_id = f"script-{client.workspace}"
    client.interactive_run(run_id, definition={"environment": ENVIRONMENT, "target": "c"})
    script = script_of(client, run_id)

    def register(name, **login):
        docker = {"baseImage": "team/net:1", "baseImageRegistry": {**LOGIN, **login}}
        return script.ask(
            "POST", f"{PREFIX}{client.here}/assets/environments", {"name": name, "body": {"docker": docker}}
        )

    refused = register("other", password="of-a-script")
    assert refused.status == 403
    assert "may not write or delete a secret" in refused.json["problem"]
    assert provisions(client, run_id)["registries"]["registry.example:5000"]["password"] == PASSWORD
    assert register("same").status == 200
    assert register("new", address="other.example").status == 200
