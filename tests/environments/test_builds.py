"""Environments that are built without running anything in them, seen through the wire."""

import os
import sys
from pathlib import Path

import pytest

from runyard.core.durable_files import shared_lock
from runyard.environments.folder import EnvironmentFolder
from tests.wire_client import WireClient

INDEX = {name: os.environ[name] for name in os.environ if name.startswith(("PIP_", "UV_"))}
VARIABLES = {**INDEX, **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}}


def an_environment(*packages, **more):
    dependencies = [f"python={sys.version_info[0]}.{sys.version_info[1]}", {"pip": list(packages)}]
    return {"python": {"condaDependencies": {"dependencies": dependencies}}, **more}


def build(client: WireClient, environment, **more):
    body = {"environment": environment, "submitter": {"variables": VARIABLES}, **more}
    return client.post(f"{client.here}/builds", body)


def ended(client: WireClient, made):
    while made["state"] in ("Queued", "Running"):
        made = client.get(f"{client.here}/builds/{made['id']}/wait?version={made['version']}&timeout=10")
    return made


def forced(client: WireClient, environment):
    """Built anew, whatever other tests have left in the cache."""
    made = ended(client, build(client, environment, force=True))
    while made["error"] and "is in use" in made["error"]["problem"]:  # by a supervisor that is just ending
        made = ended(client, build(client, environment, force=True))
    return made


def test_a_build_ends_with_its_lock_and_log_and_nothing_is_run(client):
    made = forced(client, an_environment())
    assert (made["state"], made["error"], made["image"]) == ("Succeeded", None, None)
    assert made["environment_key"]
    log = client.read(f"{client.here}/builds/{made['id']}/log")
    assert b"Python" in log
    assert client.read(f"{client.here}/builds/{made['id']}/log?offset={len(log)}") == b""
    run = client.get(f"/runs/{made['id']}")
    assert (run["experiment"], run["type"], run["status"]) == ("prepare_image", "runyard.build", "Completed")
    assert [phase["name"] for phase in run["phases"]] == ["NotStarted", "Preparing"]


def test_what_is_in_the_cache_has_succeeded_at_once(client):
    ended(client, build(client, an_environment()))
    again = build(client, an_environment(name="named"))
    assert again["state"] == "Succeeded"


def test_a_forced_build_is_made_anew(client):
    first = ended(client, build(client, an_environment()))
    again = forced(client, an_environment())
    assert again["environment_key"] == first["environment_key"]
    assert client.read(f"{client.here}/builds/{again['id']}/log")


def test_a_forced_build_of_what_is_in_use_says_so_and_leaves_it(client, service):
    first = ended(client, build(client, an_environment(name="held")))
    root = Path(service["home"]) / "environments"
    with shared_lock(EnvironmentFolder(root, first["environment_key"]).use_lock):
        again = ended(client, build(client, an_environment(name="held"), force=True))
    assert (again["state"], "is in use" in again["error"]["problem"]) == ("Failed", True)
    assert ended(client, build(client, an_environment(name="held")))["state"] == "Succeeded"


def test_a_build_that_fails_says_why(client):
    made = ended(client, build(client, an_environment("no-such-package-in-any-index==9.9")))
    assert made["state"] == "Failed"
    assert "no-such-package-in-any-index" in made["error"]["problem"]


def test_an_image_that_is_not_built_is_not_found(client):
    client.post(f"{client.here}/assets/environments", {"name": "plain", "body": an_environment()})
    refused = client.refusal("GET", f"{client.here}/environments/plain/image")
    assert (refused["code"], "build" in refused["hint"]) == ("not_found", True)
    assert client.refusal("GET", f"{client.here}/environments/none/image")["code"] == "not_found"


@pytest.mark.parametrize(
    "environment",
    [
        {"docker": {"baseImage": "$(reboot)"}},
        {"docker": {"baseImage": "a\nb"}},
        {"docker": {"baseImage": "debian", "arguments": ["--pid=host"]}},
        {"docker": {"baseDockerfile": "not a Dockerfile"}},
        {"docker": "x"},
        {"python": {"condaDependencies": {"dependencies": [{"pip": ["a\nb"]}]}}},
    ],
)
def test_what_could_never_be_built_is_refused_at_once(client, environment):
    refused = client.refusal("POST", f"{client.here}/builds", {"environment": environment})
    assert refused["code"] == "invalid_argument"


def test_a_run_is_no_build(client):
    client.interactive_run(f"plain-{client.workspace}")
    refused = client.refusal("GET", f"{client.here}/builds/plain-{client.workspace}")
    assert refused["code"] == "not_found"
