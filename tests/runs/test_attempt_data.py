import json
from pathlib import Path
from typing import Any

import pytest

from runyard.access.tokens import Tokens
from runyard.core.data_json import data_from_json
from runyard.core.records.data import DataForAttempt
from tests.attempts import node_of, script_of
from tests.wire_client import PREFIX, WireClient

BLOBS = "workspaceblobstore"
OUTPUT = {"name": "out", "files": 1}
SECRET = "YW5vdGhlci1zZWNyZXQtb2Ytbm9ib2R5"


class Attempt:
    """A run with data, and its node and script as the service meets them."""

    def __init__(self, client: WireClient, **definition: Any) -> None:
        self.run_id = f"data-{client.workspace}"
        client.interactive_run(self.run_id, definition=definition)
        self.route = f"/attempts/{self.run_id}.1"
        self.node = node_of(client, self.run_id)
        self.script = script_of(client, self.run_id)
        self._owner = client

    def data(self) -> DataForAttempt:
        return data_from_json(self.node.get(f"{self.route}/data"))

    def record(self) -> dict[str, Any]:
        return self._owner.get(f"/runs/{self.run_id}")

    def complete(self, name: str, **more: Any) -> dict[str, Any]:
        return self.node.post(f"{self.route}/outputs", {"name": name, "files": 1, "bytes": 1, **more})


@pytest.fixture
def dataset(client) -> dict[str, Any]:
    for name in ("a", "b"):
        client.put(f"{client.here}/datastores/{BLOBS}/files/pets/{name}", b"x")
    body = {"type": "file", "sources": [{"datastore": BLOBS, "path": "pets"}]}
    return client.post(f"{client.here}/datasets", {"name": "pets", "body": body})


def _input(dataset: dict[str, Any], mechanism: str = "Mount") -> dict[str, Any]:
    return {"dataLocation": {"dataset": {"id": dataset["id"]}}, "mechanism": mechanism}


def _output(path: str = "out", registration: Any = None) -> dict[str, Any]:
    return {
        "outputLocation": {"dataPath": {"datastoreName": BLOBS, "relativePath": path}},
        "mechanism": "Mount",
        "additionalOptions": {"registrationOptions": registration},
    }


def test_a_node_is_told_the_files_and_how_to_reach_them(client, dataset, service):
    reference = {"dataStoreName": "workspacefilestore", "mode": "Mount"}
    attempt = Attempt(client, data={"pets": _input(dataset)}, dataReferences={"ref": reference})
    data = attempt.data()
    pets = data.datasets["pets"]
    assert [(file.path, file.store, file.key, file.size) for file in pets.files] == [
        ("a", BLOBS, "pets/a", 1),
        ("b", BLOBS, "pets/b", 1),
    ]
    assert (pets.folder, pets.is_one_file, pets.changes) == ((BLOBS, "pets"), False, ())
    assert set(data.stores) == {BLOBS, "workspacefilestore"}
    assert data.stores[BLOBS].root == f"{service['home']}/datastores/{client.workspace}/{BLOBS}"
    assert Path(data.stores["workspacefilestore"].root).is_dir()
    assert data.network.allow_private


def test_a_node_apart_is_given_folders_through_the_service(client, dataset):
    attempt = Attempt(client, data={"pets": _input(dataset)}, outputData={"out": _output()})
    for query in ("apart=1", "apart=1&stores=1"):
        access = data_from_json(attempt.node.get(f"{attempt.route}/data?{query}")).stores[BLOBS]
        assert (access.kind, access.root, access.secrets) == ("service", f"{client.workspace}/{BLOBS}", {})
        assert set(access.options) == {"place"}


def test_the_stores_alone_are_told_at_the_end(client, dataset):
    attempt = Attempt(client, data={"pets": _input(dataset)}, outputData={"out": _output()})
    found = data_from_json(attempt.node.get(f"{attempt.route}/data?stores=1"))
    assert (found.datasets, set(found.stores)) == ({}, {BLOBS})


def test_web_addresses_come_with_the_submitters_proxies(client):
    body = {"type": "file", "sources": [{"url": "http://127.0.0.1:9/x"}]}
    saved = client.post(f"{client.here}/datasets", {"name": "", "body": body, "validate": False})
    proxies = {"no_proxy": "localhost", "https_proxy": "http://proxy.lan", "PATH": "/bin"}
    attempt = Attempt(
        client, dataReferences={"r": {"dataStoreName": BLOBS}}, runyard={"submitter": {"variables": proxies}}
    )
    assert saved["id"]
    assert attempt.data().network.variables == {"no_proxy": "localhost", "https_proxy": "http://proxy.lan"}


def test_part_of_a_folder_is_no_whole_folder(client, dataset):
    body = {**dataset["body"], "steps": [["take", 1]]}
    taken = client.post(f"{client.here}/datasets", {"name": "", "body": body})
    pets = Attempt(client, data={"pets": _input(taken)}).data().datasets["pets"]
    assert ([file.path for file in pets.files], pets.folder) == (["a"], None)


def test_one_file_is_given_as_that_file(client, dataset):
    body = {"type": "file", "sources": [{"datastore": BLOBS, "path": "pets/a"}]}
    one = client.post(f"{client.here}/datasets", {"name": "", "body": body})
    pets = Attempt(client, data={"pets": _input(one)}).data().datasets["pets"]
    assert (pets.folder, pets.is_one_file) == ((BLOBS, "pets/a"), True)


def test_data_that_changed_is_a_warning_of_the_run_told_once(client, dataset):
    client.put(f"{client.here}/datastores/{BLOBS}/files/pets/new", b"x")
    attempt = Attempt(client, data={"pets": _input(dataset)})
    for _ in range(2):
        (change,) = attempt.data().datasets["pets"].changes
    assert change.startswith("Data input 'pets': 1 file was added since")
    assert attempt.record()["warnings"] == [change]


def test_a_run_shows_what_it_read(client, dataset):
    attempt = Attempt(client, data={"direct": _input(dataset, "Direct"), "pets": _input(dataset, "Download")})
    direct = {"dataset_id": dataset["id"], "name": "pets", "version": 1, "input_name": "direct", "mode": "Direct"}
    assert attempt.record()["inputs"] == [direct]
    attempt.data()
    attempt.data()
    assert attempt.record()["inputs"] == [direct, {**direct, "input_name": "pets", "mode": "Download"}]


@pytest.mark.parametrize("way", ["by-name", "by-id", "resolve", "file", "access"])
def test_a_dataset_that_a_script_looks_up_counts_as_read(client, dataset, way):
    attempt = Attempt(client)
    match way:
        case "by-name":
            attempt.script.get(f"{client.here}/assets/datasets/pets")
        case "by-id":
            attempt.script.get(f"{client.here}/assets/datasets/by-id/{dataset['id']}")
        case "resolve":
            attempt.script.post(f"{client.here}/datasets/resolve", {"id": dataset["id"]})
        case "file":
            attempt.script.read(f"{client.here}/datasets/by-id/{dataset['id']}/files/a")
        case "access":
            attempt.script.get(f"{client.here}/datasets/by-id/{dataset['id']}/access")
    (found,) = attempt.record()["inputs"]
    assert (found["dataset_id"], found["mode"], found["input_name"]) == (dataset["id"], "Reference", "")


def test_what_the_owner_looks_up_is_no_runs_input(client, dataset):
    client.get(f"{client.here}/assets/datasets/pets")
    assert client.get(f"{client.here}/datasets/by-id/{dataset['id']}/lineage") == {"runs": [], "models": []}


def test_an_output_becomes_a_dataset_of_the_run(client):
    attempt = Attempt(client, outputData={"out": _output("res/{run-id}")})
    client.put(f"{client.here}/datastores/{BLOBS}/files/res/{attempt.run_id}/x", b"x")
    saved = attempt.complete("out")
    assert saved["body"]["sources"] == [{"datastore": BLOBS, "path": f"res/{attempt.run_id}"}]
    assert (saved["name"], saved["body"]["pin"]["files"]) == ("", 1)
    assert attempt.complete("out")["id"] == saved["id"]
    (output,) = attempt.record()["outputs"]
    assert output == {"dataset_id": saved["id"], "name": "", "version": saved["version"], "output_name": "out"}


def test_an_output_is_registered_where_that_was_asked_for(client):
    registration = {"name": "features", "description": "d", "tags": {"k": "v"}}
    attempt = Attempt(client, outputData={"out": _output(registration=registration)})
    client.put(f"{client.here}/datastores/{BLOBS}/files/out/x", b"x")
    for _ in range(2):
        saved = attempt.complete("out", registers=True)
    assert (saved["name"], saved["version"], saved["tags"]) == ("features", 1, {"k": "v"})
    assert saved["body"]["description"] == "d"
    assert len(client.get(f"{client.here}/assets/datasets?name=features")["assets"]) == 1


def test_a_script_that_failed_registers_nothing(client):
    attempt = Attempt(client, outputData={"out": _output(registration={"name": "features"})})
    assert attempt.complete("out", files=0, registers=False)["name"] == ""
    assert client.get(f"{client.here}/assets/datasets")["assets"] == []


def test_an_output_read_as_a_table_is_registered_as_one(client):
    registration = {"name": "t", "datasetRegistrationOptions": {"additionalTransformation": {"kind": "delimited"}}}
    attempt = Attempt(client, outputData={"out": _output(registration=registration)})
    body = attempt.complete("out", files=0)["body"]
    assert (body["type"], body["format"]) == ("tabular", {"kind": "delimited"})


def test_a_script_links_a_dataset_as_its_output(client, dataset):
    linked = {"mechanism": "Link", "additionalOptions": {"registrationOptions": {"name": "kept", "tags": {"k": "v"}}}}
    attempt = Attempt(client, outputData={"out": {"mechanism": "Link"}, "kept": linked, "file": _output()})
    route = f"/runs/{attempt.run_id}/outputs"
    for _ in range(2):
        attempt.script.post(route, {"name": "out", "dataset_id": dataset["id"]})
        made = attempt.script.post(route, {"name": "kept", "dataset_id": dataset["id"]})
    assert (made["name"], made["version"], made["tags"]) == ("kept", 1, {"k": "v"})
    outputs = [(output["output_name"], output["dataset_id"]) for output in attempt.record()["outputs"]]
    assert outputs == [("out", dataset["id"]), ("kept", made["id"])]
    for name, dataset_id in (("file", dataset["id"]), ("none", dataset["id"]), ("out", "none")):
        refusal = attempt.script.refusal("POST", route, {"name": name, "dataset_id": dataset_id})
        assert refusal["code"] == "not_found"


@pytest.mark.parametrize(
    "body", [{}, {"name": "none", "files": 1}, {"name": "out"}, {"name": "out", "files": -1}, {"name": 7, "files": 1}]
)
def test_an_output_that_the_run_does_not_have_is_refused(client, body):
    attempt = Attempt(client, outputData={"out": _output()})
    assert attempt.node.refusal("POST", f"{attempt.route}/outputs", body)["status"] in (400, 404)


def test_a_dataset_knows_its_runs_and_the_models_that_came_of_them(client, dataset):
    attempt = Attempt(client, data={"pets": _input(dataset)})
    attempt.data()
    blob = client.put_blob(b"weights")
    files = {"files": [["m", blob, 7, 0o644]]}
    for name, more in (("by-run", {"run_id": attempt.run_id}), ("named", {"datasets": [["training", dataset["id"]]]})):
        client.post(f"{client.here}/assets/models", {"name": name, "body": {**files, **more}})
    for name, odd in (("other", None), ("odd", 7), ("odder", [7, ["a"], {}])):
        client.post(f"{client.here}/assets/models", {"name": name, "body": {**files, "datasets": odd}})
    lineage = client.get(f"{client.here}/datasets/by-id/{dataset['id']}/lineage")
    (run,) = lineage["runs"]
    assert (run["run_id"], run["experiment"], run["direction"]) == (attempt.run_id, "probe", "input")
    assert (run["name"], run["mode"], run["at"].endswith("Z")) == ("pets", "Mount", True)
    assert lineage["models"] == [
        {"name": "by-run", "version": 1, "run_id": attempt.run_id},
        {"name": "named", "version": 1, "run_id": ""},
    ]


def test_the_access_to_a_dataset_is_that_of_a_run_with_it_alone(client, dataset):
    found = data_from_json(client.get(f"{client.here}/datasets/by-id/{dataset['id']}/access"))
    assert list(found.datasets) == ["data"]
    assert set(found.stores) == {BLOBS}
    attempt = Attempt(client)
    refusal = attempt.node.refusal("GET", f"{client.here}/datasets/by-id/{dataset['id']}/access")
    assert refusal["code"] == "forbidden"
    assert "may not get direct access to the files of a dataset" in refusal["problem"]


def test_a_script_is_given_the_datastores_that_the_dataset_lies_on_and_no_others(client, tmp_path):
    for name in ("pictures", "others"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_bytes(b"x")
        new = {"name": name, "kind": "folder", "settings": {"folder": str(tmp_path / name)}}
        client.post(f"{client.here}/datastores", new)
    body = {"type": "file", "sources": [{"datastore": "pictures", "path": "a"}]}
    saved = client.post(f"{client.here}/datasets", {"name": "one", "body": body})
    answer = Attempt(client).script.get(f"{client.here}/datasets/by-id/{saved['id']}/access")
    assert list(answer["stores"]) == ["pictures"]
    assert "others" not in str(answer)


def test_data_is_for_the_node_of_that_attempt_alone(client, dataset):
    attempt = Attempt(client, data={"pets": _input(dataset)})
    other = client.with_token(Tokens(client.token).node_token("other.1"))
    for stranger in (attempt.script, other):
        assert stranger.refusal("GET", f"{attempt.route}/data")["code"] == "forbidden"
        assert stranger.refusal("POST", f"{attempt.route}/outputs", OUTPUT)["code"] == "forbidden"


def test_a_run_that_has_ended_is_given_no_credentials_any_more(client, dataset):
    attempt = Attempt(client, data={"pets": _input(dataset)})
    client.patch(f"/runs/{attempt.run_id}", {"status": "Completed"})
    assert attempt.node.refusal("GET", f"{attempt.route}/data")["code"] == "attempt_over"


def test_credentials_go_to_the_node_and_nowhere_else(client, service):
    client.post(
        f"{client.here}/datastores",
        {
            "name": "pets",
            "kind": "s3",
            "settings": {"bucket": "b", "endpoint": "http://127.0.0.1:9"},
            "credentials": {"access_key_id": "AKID", "secret_access_key": SECRET},
            "skip_validation": True,
        },
    )
    attempt = Attempt(client, dataReferences={"ref": {"dataStoreName": "pets", "mode": "Mount"}})
    assert attempt.data().stores["pets"].secrets["secret_access_key"] == SECRET
    answer = attempt.node.ask("GET", f"{PREFIX}{attempt.route}/data")
    assert answer.headers["cache-control"] == "no-store"
    assert SECRET not in json.dumps(attempt.record())
    for file in Path(service["home"]).rglob("*"):
        if file.is_file():
            assert SECRET.encode() not in file.read_bytes(), file


@pytest.mark.parametrize(
    ("definition", "named"),
    [
        ({"data": {"pets": {"dataLocation": {"dataset": {"id": "none"}}, "mechanism": "Mount"}}}, "'pets'"),
        ({"data": {"pets": {"dataLocation": {"dataset": {"id": "none"}}, "mechanism": "Direct"}}}, "'pets'"),
        ({"dataReferences": {"ref": {"dataStoreName": "none"}}}, "'none'"),
        ({"outputData": {"out": _output("../up")}}, "'out'"),
        ({"outputData": {"out": _output(registration={"name": "a/b"})}}, "a/b"),
        ({"outputData": {"out": _output(registration={"tags": {}, "name": 7})}}, "'out'"),
        ({"outputData": {"out": _output(registration={"name": "x", "tags": 7})}}, "'out'"),
        ({"outputData": {"out": _output(registration={"name": "x", "datasetRegistrationOptions": 7})}}, "'out'"),
        ({"outputData": {"out": {"mechanism": "Link", "additionalOptions": "x"}}}, "outputData.out.additionalOptions"),
        ({"data": []}, None),
        ({"data": {"a b": {}}}, "'a b'"),
    ],
)
def test_data_that_cannot_be_had_is_refused_at_submit(client, definition, named):
    body = {"run_id": f"no-{client.workspace}", "interactive": True, "definition": definition}
    answer = client.ask("POST", f"{PREFIX}{client.here}/experiments/probe/runs", body)
    if named is None:
        assert answer.status == 200
        return
    assert answer.status in (400, 404)
    assert named in answer.json["problem"]
