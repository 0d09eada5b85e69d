"""Who has made an asset: recorded, shown, asked for, and what a script's token may change by it."""

import hashlib

import pytest

from tests.attempts import script_of
from tests.wire_client import WireClient

MODEL = {"name": "net", "body": {"files": []}}
ENVIRONMENT = {"name": "env", "body": {"python": {"a": 1}}}
COMPUTE = {"name": "cluster", "body": {"max_nodes": 1}}
KINDS = {"models": MODEL, "environments": ENVIRONMENT, "computes": COMPUTE}
SOURCES = {"type": "file", "sources": [{"url": "http://127.0.0.1:9/x"}]}


@pytest.fixture
def run_id(client: WireClient) -> str:
    return f"maker-{client.workspace}"


@pytest.fixture
def script(client: WireClient, run_id: str) -> WireClient:
    client.interactive_run(run_id)
    return script_of(client, run_id)


@pytest.fixture
def other(client: WireClient) -> WireClient:
    """The script of another run in the same workspace."""
    client.interactive_run(f"other-{client.workspace}")
    return script_of(client, f"other-{client.workspace}")


def unread(name: str, **more: object) -> dict[str, object]:
    """A dataset whose source nobody looks at."""
    return {"name": name, "body": SOURCES, "validate": False, **more}


def web(address: str, **more: object) -> dict[str, object]:
    return {"name": "far", "kind": "web", "settings": {"address": address}, "skip_validation": True, **more}


class TestRecords:
    @pytest.mark.parametrize("kind", KINDS)
    def test_an_asset_tells_who_registered_it(self, client, script, run_id, kind):
        assets = f"{client.here}/assets/{kind}"
        assert client.post(assets, KINDS[kind])["created_by"] == "owner"
        made = script.post(assets, {**KINDS[kind], "name": "of-a-script"})
        assert made["created_by"] == f"run:{run_id}"
        assert client.get(f"{assets}/of-a-script")["created_by"] == f"run:{run_id}"
        assert [one["name"] for one in client.get(f"{assets}?created_by=run:{run_id}")["assets"]] == ["of-a-script"]
        assert KINDS[kind]["name"] in [one["name"] for one in client.get(f"{assets}?created_by=owner")["assets"]]
        assert client.get(f"{assets}?created_by=nobody") == {"assets": []}

    def test_datasets_and_datastores_do_too(self, client, script, run_id):
        assert client.post(f"{client.here}/datasets", unread("d"))["created_by"] == "owner"
        assert script.post(f"{client.here}/datasets", unread("e"))["created_by"] == f"run:{run_id}"
        assert script.post(f"{client.here}/datastores", web("http://127.0.0.1:9/"))["created_by"] == f"run:{run_id}"
        first = client.get(f"{client.here}/assets/datastores/workspaceblobstore")
        assert first["created_by"] == "owner"

    def test_each_version_has_its_own_maker_and_a_change_leaves_it(self, client, script, run_id):
        models = f"{client.here}/assets/models"
        client.post(models, MODEL)
        script.post(models, MODEL)
        client.patch(f"{models}/net?version=2", {"tags": {"a": "b"}})
        found = client.get(f"{models}?name=net")["assets"]
        assert [(one["version"], one["created_by"]) for one in found] == [(2, f"run:{run_id}"), (1, "owner")]


class TestScripts:
    @pytest.mark.parametrize("kind", KINDS)
    def test_a_script_changes_and_deletes_what_it_has_made(self, client, script, kind):
        one = f"{client.here}/assets/{kind}/{KINDS[kind]['name']}"
        script.post(f"{client.here}/assets/{kind}", KINDS[kind])
        assert script.patch(one, {"tags": {"a": "b"}})["tags"] == {"a": "b"}
        script.delete(one)
        assert client.refusal("GET", one)["code"] == "not_found"

    @pytest.mark.parametrize("kind", KINDS)
    def test_it_changes_and_deletes_nothing_of_others(self, client, script, other, kind):
        assets = f"{client.here}/assets/{kind}"
        client.post(assets, KINDS[kind])
        other.post(assets, {**KINDS[kind], "name": "theirs"})
        for name in (KINDS[kind]["name"], "theirs"):
            for method, body in (("PATCH", {"tags": {"a": "b"}}), ("DELETE", None)):
                refused = script.refusal(method, f"{assets}/{name}", body)
                assert (refused["status"], refused["facts"]["action"]) == (403, "change_asset")
            assert client.get(f"{assets}/{name}")["tags"] == {}

    def test_a_parent_changes_what_its_children_have_made(self, client, script, run_id):
        child = f"child-{client.workspace}"
        script.interactive_run(child, parent_id=run_id)
        models = f"{client.here}/assets/models"
        script_of(client, child).post(models, MODEL)
        assert script.patch(f"{models}/net", {"tags": {"by": "parent"}})["tags"] == {"by": "parent"}

    def test_it_registers_a_next_version_and_deletes_that_one_alone(self, client, script):
        models = f"{client.here}/assets/models"
        client.post(models, MODEL)
        assert script.post(models, MODEL)["version"] == 2
        assert script.refusal("DELETE", f"{models}/net")["status"] == 403
        script.delete(f"{models}/net?version=2")
        assert client.get(f"{models}/net")["version"] == 1

    def test_a_compute_of_others_is_not_made_anew_by_it(self, client, script):
        client.post(f"{client.here}/assets/computes", COMPUTE)
        refused = script.refusal("POST", f"{client.here}/assets/computes", {**COMPUTE, "body": {"max_nodes": 9}})
        assert refused["status"] == 403
        assert client.get(f"{client.here}/assets/computes/cluster")["body"]["max_nodes"] == 1

    def test_it_takes_no_label_from_others_versions(self, client, script):
        environments = f"{client.here}/assets/environments"
        client.post(environments, ENVIRONMENT)
        client.patch(f"{environments}/env", {"labels": ["stable"]})
        script.post(environments, {**ENVIRONMENT, "body": {"python": {"a": 2}}})
        assert script.refusal("PATCH", f"{environments}/env", {"labels": ["stable"]})["status"] == 403
        assert client.get(f"{environments}/env?label=stable")["version"] == 1
        assert script.patch(f"{environments}/env", {"labels": ["mine"]})["labels"] == ["mine"]

    def test_it_gives_itself_no_label_by_a_tag(self, client, script):
        environments = f"{client.here}/assets/environments"
        client.post(environments, ENVIRONMENT)
        client.patch(f"{environments}/env", {"labels": ["stable"]})
        new = {**ENVIRONMENT, "body": {"python": {"a": 2}}}
        for tag in ("runyard.label/stable", "runyard.key"):
            refused = script.refusal("POST", environments, {**new, "tags": {tag: ""}})
            assert (refused["status"], refused["code"]) == (400, "invalid_argument")
            assert tag in refused["problem"]
        script.post(environments, new)
        refused = script.refusal("PATCH", f"{environments}/env", {"tags": {"runyard.label/stable": ""}})
        assert refused["status"] == 400
        assert client.get(f"{environments}/env?label=stable")["version"] == 1

    def test_it_overwrites_no_datastore_of_others(self, client, script):
        stores = f"{client.here}/datastores"
        client.post(stores, web("http://127.0.0.1:9/a/"))
        refused = script.refusal("POST", stores, web("http://127.0.0.1:9/b/", overwrite=True))
        assert (refused["status"], refused["code"]) == (403, "forbidden")
        script.post(stores, web("http://127.0.0.1:9/a/", overwrite=True))  # the same again changes nothing
        found = client.get(f"{client.here}/assets/datastores/far")
        assert (found["body"]["settings"]["address"], found["created_by"]) == ("http://127.0.0.1:9/a/", "owner")

    def test_it_makes_no_datastore_the_default_of_its_workspace(self, client, script):
        script.post(f"{client.here}/datastores", web("http://127.0.0.1:9/"))
        refused = script.refusal("PATCH", f"{client.here}/assets/datastores/far", {"body": {"is_default": True}})
        assert refused["status"] == 403
        assert client.get(f"{client.here}/assets/datastores/workspaceblobstore")["body"]["is_default"]

    def test_it_writes_files_of_datastores_and_deletes_none(self, client, script):
        file = f"{client.here}/datastores/workspaceblobstore/files/a"
        script.put(file, b"x")
        assert script.refusal("DELETE", file)["status"] == 403
        assert client.read(file) == b"x"
        client.delete(file)


def test_a_model_names_no_run_of_another_workspace(client, script):
    elsewhere = f"{client.workspace}-elsewhere"
    client.put(f"/workspaces/{elsewhere}", {})
    client.post(f"/workspaces/{elsewhere}/experiments/e/runs", {"run_id": elsewhere, "interactive": True})
    for body in ({"run_id": elsewhere, "model_path": "outputs"}, {"body": {"files": [], "run_id": elsewhere}}):
        refused = script.refusal("POST", f"{client.here}/assets/models", {"name": "m", **body})
        assert (refused["status"], refused["code"]) == (404, "not_found")


def test_a_blob_is_asked_for_as_its_caller_whoever_asked_before(client, script):
    """The service's threads serve many callers: what one may see is not carried over to the next."""
    data = b"of the owner alone"
    name = hashlib.sha256(data).hexdigest()
    client.put_blob(data)
    for _ in range(20):
        assert client.post("/blobs/missing", {"sha256": [name]}) == {"missing": []}
        assert script.post("/blobs/missing", {"sha256": [name]}) == {"missing": [name]}
        assert script.refusal("GET", f"/blobs/{name}")["code"] == "not_found"
        assert client.read(f"/blobs/{name}") == data


def test_the_id_of_a_run_that_is_gone_brings_nobody_what_it_made(client, script, run_id):
    models, gone = f"{client.here}/assets/models", f"gone-{client.workspace}"
    client.interactive_run(gone)
    script_of(client, gone).post(models, MODEL)
    client.patch(f"/runs/{gone}", {"status": "Completed"})
    client.delete(f"/runs/{gone}")
    script.interactive_run(gone, parent_id=run_id)
    for caller in (script, script_of(client, gone)):
        assert caller.refusal("DELETE", f"{models}/net")["status"] == 403
    assert client.get(f"{models}/net")["created_by"] == f"run:{gone}"
