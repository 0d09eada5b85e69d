"""Addresses with passwords in environments that come in, and what a node is told of them."""

from pathlib import Path

import pytest

from tests.attempts import node_of
from tests.serving.scoring_models import inference, registered, submitter

SECRET = "t0ken-of-a-channel"
INDEX = f"https://ada:{SECRET}@packages.example/simple"
DOCKERFILE = f"FROM debian\nRUN pip install -i '{INDEX}' demo"


def with_pip(*lines: str) -> dict[str, object]:
    return {"python": {"condaDependencies": {"dependencies": [{"pip": list(lines)}]}}}


def pip_of(run: dict) -> list[str]:
    return run["definition"]["environment"]["python"]["condaDependencies"]["dependencies"][0]["pip"]


def told(client, run_id: str) -> dict[str, str]:
    return node_of(client, run_id).get(f"/attempts/{run_id}.1/packages")["addresses"]


def assert_nowhere(home: str) -> None:
    assert [path for path in Path(home).rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()] == []


@pytest.mark.parametrize(
    ("environment", "address"),
    [
        (with_pip(f"--index-url={INDEX}"), INDEX),
        (with_pip(f"demo @ {INDEX}/demo.whl; python_version > '3'"), f"{INDEX}/demo.whl"),
        (with_pip(f"-f https://{SECRET}@packages.example/"), f"https://{SECRET}@packages.example/"),
        (with_pip(f"-f https://h.example/?token={SECRET}"), f"https://h.example/?token={SECRET}"),
        (
            {"python": {"condaDependencies": {"channels": [f"https://c.example/t/{SECRET}/main"]}}},
            f"https://c.example/t/{SECRET}/main",
        ),
        ({"docker": {"baseDockerfile": DOCKERFILE}}, INDEX),
    ],
)
def test_the_vault_keeps_it_and_the_node_is_told(client, service, environment, address):
    run_id = f"private-{client.workspace}"
    made = client.interactive_run(run_id, definition={"environment": environment, "target": "c"})
    assert_nowhere(service["home"])
    ((marked, original),) = told(client, run_id).items()
    assert original == address
    assert marked in str(made["definition"]["environment"])
    assert SECRET not in str(client.get(f"/runs/{run_id}"))


def test_variables_of_the_script_are_left_alone(client):
    variables = {"DATA": "https://ada:own@data.example/"}
    run_id = f"variables-{client.workspace}"
    made = client.interactive_run(run_id, definition={"environment": {"environmentVariables": variables}})
    assert made["definition"]["environment"]["environmentVariables"] == variables


def test_what_stands_for_an_address_is_good_for_that_address_alone(client):
    first = client.interactive_run(f"first-{client.workspace}", definition={"environment": with_pip(f"-i {INDEX}")})
    (line,) = pip_of(first)
    again = client.interactive_run(f"again-{client.workspace}", definition={"environment": with_pip(line)})
    assert pip_of(again) == [line]
    assert list(told(client, f"again-{client.workspace}").values()) == [INDEX]
    stolen = line.replace("packages.example", "packages.example.thief.example")
    run_id = f"stolen-{client.workspace}"
    client.interactive_run(run_id, definition={"environment": with_pip(stolen, line)})
    assert SECRET not in told(client, run_id)[pip_of(client.get(f"/runs/{run_id}"))[0].split()[1]]


def test_another_workspace_is_not_told(client):
    first = client.interactive_run(f"first-{client.workspace}", definition={"environment": with_pip(f"-i {INDEX}")})
    client.put("/workspaces/elsewhere", {"exist_ok": True})
    run_id = f"there-{client.workspace}"
    body = {"run_id": run_id, "interactive": True, "definition": {"environment": with_pip(*pip_of(first))}}
    client.post("/workspaces/elsewhere/experiments/e/runs", body)
    assert SECRET not in str(told(client, run_id))


def test_too_many_are_refused(client):
    lines = [f"demo @ https://ada:{number}@packages.example/demo.whl" for number in range(101)]
    body = {"run_id": f"many-{client.workspace}", "interactive": True, "definition": {"environment": with_pip(*lines)}}
    refused = client.refusal("POST", f"{client.here}/experiments/e/runs", body)
    assert refused["status"] == 400
    assert "101 addresses" in str(refused)


def test_a_deployment_keeps_none_in_its_record(client, service):
    given = inference(client)
    given["environment"] = with_pip(f"--index-url {INDEX}", "demo")
    body = {"name": "quiet", "models": [registered(client)], "inference": given, "submitter": submitter()}
    made = client.post(f"{client.here}/services", {**body, "type": "ACI"})
    assert SECRET not in str(made)
    assert SECRET not in str(client.get(f"{client.here}/services/quiet"))
    client.delete(f"{client.here}/services/quiet")
