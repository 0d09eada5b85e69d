"""The routes of web services as any client may use them."""

import sys

import pytest

from runyard.access.tokens import Tokens
from tests.attempts import script_of

SCRIPT = b"def init():\n    pass\ndef run(data):\n    return data\n"


@pytest.fixture
def services(client):
    content = b"weights"
    body = {"files": [["w.bin", client.put_blob(content), len(content), 0o644]]}
    client.post(f"{client.here}/assets/models", {"name": "net", "body": body})
    yield f"{client.here}/services"
    for one in client.get(f"{client.here}/services")["services"]:
        client.delete(f"{client.here}/services/{one['name']}")


@pytest.fixture
def asked(client, services):
    python = {"userManagedDependencies": True, "interpreterPath": sys.executable}
    files = [["score.py", client.put_blob(SCRIPT), len(SCRIPT), 0o644]]
    inference = {"entry_script": "score.py", "files": files, "environment": {"python": python}}
    return {"name": "the-service", "type": "ACI", "models": ["net:1"], "inference": inference}


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        ({"name": "The-Service"}, 400, "capital letters"),
        ({"name": "../../etc"}, 400, "web service name"),
        ({"name": None}, 400, "name: must be a string"),
        ({"type": "VM"}, 400, "type must be one of"),
        ({"models": "net:1"}, 400, "models: must be a list"),
        ({"models": ["net:one"]}, 400, "NAME:VERSION"),
        ({"models": ["net:1", "net:1"]}, 400, "twice"),
        ({"models": ["none:1"]}, 404, "ModelNotFound"),
        ({"config": []}, 400, "config: must be an object"),
        ({"config": {"surprise": 1}}, 400, "'surprise'"),
        ({"config": {"cpu_cores": -1}}, 400, "cpu_cores"),
        ({"inference": []}, 400, "inference: must be an object"),
        ({"inference": None, "config": {}}, 400, "model_framework"),
        ({"overwrite": "yes"}, 400, "overwrite"),
        ({"image_id": "none:1"}, 404, "image"),
        ({"tags": {"a": []}}, 400, "tags"),
    ],
)
def test_what_cannot_be_deployed_is_refused_with_a_status_and_words(client, services, asked, change, status, said):
    refused = client.refusal("POST", services, {**asked, **change})
    assert (refused["status"], said in f"{refused['problem']} {refused['hint']}") == (status, True), refused
    assert client.get(services)["services"] == []


def test_what_is_not_there_is_404_on_every_route(client, services):
    none = f"{services}/none"
    asks = [
        ("GET", none),
        ("PATCH", none),
        ("POST", f"{none}/reload"),
        ("GET", f"{none}/logs"),
        ("GET", f"{none}/keys"),
    ]
    asks += [("POST", f"{none}/token"), ("GET", f"{none}/metrics"), ("GET", f"{none}/wait?timeout=1")]
    for method, address in asks:
        assert client.refusal(method, address, {} if method == "PATCH" else None)["status"] == 404, address
    client.delete(none)


def test_a_deployed_one_is_listed_with_its_filters_and_its_record_is_whole(client, services, asked):
    made = client.post(services, {**asked, "tags": {"k": "v"}, "properties": {"p": "q"}, "description": "mine"})
    assert {
        "id", "name", "type", "version", "state", "step", "revision", "wanted_revision", "error", "failed_revision",
        "scoring_uri", "swagger_uri", "port", "models", "inference", "config", "auth_enabled", "token_auth_enabled",
        "description", "tags", "properties", "image_id", "created_at", "updated_at", "replicas", "wanted_replicas",
        "notes", "lock", "schema", "created_by",
    } == set(made)  # fmt: skip
    for query in ("type=ACI", "model=net", "model=net%3A1", "tag=k", "tag=k%3Dv", "property=p"):
        assert [one["name"] for one in client.get(f"{services}?{query}")["services"]] == ["the-service"], query
    for query in ("type=AKS", "model=other", "tag=k%3Dw", "property=z", "image=none"):
        assert client.get(f"{services}?{query}")["services"] == [], query


def test_waiting_ends_at_once_when_there_is_news(client, services, asked):
    client.post(services, asked)
    first = client.get(f"{services}/the-service/wait?version=0&timeout=20")
    assert first["version"] >= 1


def test_keys_are_never_cached(client, services, asked):
    client.post(services, {**asked, "config": {"auth_enabled": True}})
    answer = client.ask("GET", f"/api/v1{services}/the-service/keys")
    assert (answer.status, answer.headers["cache-control"]) == (200, "no-store")
    refused = client.refusal("POST", f"{services}/the-service/keys", {"key": "Third"})
    assert refused["status"] == 400


def test_a_log_is_read_from_an_offset(client, services, asked):
    client.post(services, asked)
    client.get(f"{services}/the-service/wait?version=0&timeout=20")
    answer = client.ask("GET", f"/api/v1{services}/the-service/logs?offset=0&limit=5")
    assert (answer.status, len(answer.body) <= 5) == (200, True)
    assert int(answer.headers["x-runyard-offset"]) == len(answer.body)
    assert client.refusal("GET", f"{services}/the-service/logs?limit=-1")["status"] == 400


def test_a_script_of_the_workspace_may_deploy_and_a_node_may_not(client, services, asked):
    run_id = client.interactive_run(f"deployer-{client.workspace}")["id"]
    script = script_of(client, run_id)
    script.put_blob(SCRIPT)
    assert script.post(services, asked)["name"] == "the-service"
    assert script.get(f"{services}/the-service")["type"] == "ACI"
    node = client.with_token(Tokens(client.token).node_token(f"{run_id}.1"))
    for method, address in (("GET", services), ("POST", services), ("GET", f"{services}/the-service/keys")):
        assert node.refusal(method, address, asked if method == "POST" else None)["status"] == 403
    client.put("/workspaces/elsewhere", {"exist_ok": True})
    assert script.refusal("GET", "/workspaces/elsewhere/services")["status"] == 403


def test_a_script_changes_only_what_its_own_runs_have_deployed(client, services, asked):
    with_keys = {**asked, "config": {"auth_enabled": True}}
    client.post(services, {**with_keys, "name": "the-owners"})
    mother = client.interactive_run(f"mother-{client.workspace}")["id"]
    child = client.interactive_run(f"child-{client.workspace}", parent_id=mother)["id"]
    stranger = client.interactive_run(f"stranger-{client.workspace}")["id"]
    its_child = script_of(client, child)
    its_child.put_blob(SCRIPT)
    assert its_child.post(services, {**with_keys, "name": "the-childs"})["created_by"] == f"run:{child}"
    changing = [
        ("PATCH", "", {"description": "another"}),
        ("POST", "/reload", {}),
        ("POST", "/keys", {"key": "Primary"}),
        ("DELETE", "", None),
    ]
    for run_id, name in ((mother, "the-owners"), (stranger, "the-childs")):
        script = script_of(client, run_id)
        script.put_blob(SCRIPT)
        refusals = [script.refusal(method, f"{services}/{name}{below}", body) for method, below, body in changing]
        refusals.append(script.refusal("POST", services, {**with_keys, "name": name, "overwrite": True}))
        assert [one["status"] for one in refusals] == [403] * 5, refusals
        assert script.get(f"{services}/{name}")["description"] == ""
        assert script.get(f"{services}/{name}/keys")["primary"]
    for who in (its_child, script_of(client, mother)):
        assert who.patch(f"{services}/the-childs", {"description": "another"})["description"] == "another"
    script_of(client, mother).delete(f"{services}/the-childs")
    assert [one["name"] for one in client.get(services)["services"]] == ["the-owners"]


def test_an_endpoint_of_the_owner_takes_no_version_from_a_script(client, services, asked):
    config = {"version_name": "one", "traffic_percentile": 40}
    client.post(services, {**asked, "type": "AKS", "config": config})
    script = script_of(client, client.interactive_run(f"versions-{client.workspace}")["id"])
    script.put_blob(SCRIPT)
    versions = f"{services}/the-service/versions"
    for method, below, body in (
        ("POST", "", {**asked, "name": "two"}),
        ("PATCH", "/one", {"config": {"traffic_percentile": 1}}),
        ("DELETE", "/one", None),
    ):
        assert script.refusal(method, versions + below, body)["status"] == 403, below
    assert client.get(f"{services}/the-service")["versions"]["one"]["traffic_percentile"] == 40
    assert script.ask("GET", f"/api/v1{versions}/one/logs").status == 200


def test_services_are_listed_by_who_deployed_them(client, services, asked):
    run_id = client.interactive_run(f"lister-{client.workspace}")["id"]
    script = script_of(client, run_id)
    script.put_blob(SCRIPT)
    script.post(services, {**asked, "name": "the-runs"})
    client.post(services, {**asked, "name": "the-owners"})
    for who, names in (("owner", ["the-owners"]), (f"run%3A{run_id}", ["the-runs"]), ("nobody", [])):
        found = client.get(f"{services}?created_by={who}")["services"]
        assert [one["name"] for one in found] == names


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        ({"name": "../two"}, 400, "version_name"),
        ({"name": None}, 400, "name: must be a string"),
        ({"name": "one"}, 409, "'one' already"),
        ({"models": ["none:1"]}, 404, "ModelNotFound"),
        ({"config": {"traffic_percentile": 61}}, 400, "at most 100"),
        ({"config": {"traffic_percentile": -1}}, 400, "traffic_percentile"),
        ({"config": {"auth_enabled": False}}, 400, "endpoint's"),
        ({"config": {"is_default": 1}}, 400, "is_default"),
    ],
)
def test_a_version_that_cannot_be_is_refused_with_a_status_and_words(client, services, asked, change, status, said):
    config = {"version_name": "one", "traffic_percentile": 40}
    client.post(services, {**asked, "type": "AKS", "config": config})
    versions = f"{services}/the-service/versions"
    refused = client.refusal("POST", versions, {**asked, "name": "two", **change})
    assert (refused["status"], said in f"{refused['problem']} {refused['hint']}") == (status, True), refused
    assert list(client.get(f"{services}/the-service")["versions"]) == ["one"]
    for method, path in (("PATCH", "/two"), ("DELETE", "/two"), ("GET", "/two/logs")):
        assert client.refusal(method, versions + path, {})["status"] == 404
    assert client.refusal("DELETE", f"{versions}/one")["status"] == 409
    assert [one["name"] for one in client.get(services)["services"]] == ["the-service"]
