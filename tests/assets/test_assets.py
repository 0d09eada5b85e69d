import pytest


@pytest.fixture
def models(client):
    return f"{client.here}/assets/models"


@pytest.fixture
def run(client):
    run_id = client.interactive_run(f"assets-{client.workspace}")["id"]
    entries = [
        [path, client.put_blob(path.encode()), len(path), 0o644]
        for path in ("outputs/model/a.bin", "outputs/model/deep/b.bin", "outputs/model2.bin", "outputs/other.txt")
    ]
    client.post(f"/runs/{run_id}/files", {"entries": entries})
    return run_id


def paths(asset):
    return [entry[0] for entry in asset["body"]["files"]]


def test_versions_count_up_and_the_latest_is_found(client, models):
    sha256 = client.put_blob(b"weights")
    body = {"files": [["m.bin", sha256, 7, 0o644]], "description": "one"}
    first = client.post(models, {"name": "net", "body": body, "tags": {"a": "1"}})
    second = client.post(models, {"name": "net", "body": {**body, "description": "two"}})
    assert (first["version"], second["version"]) == (1, 2)
    assert client.get(f"{models}/net")["version"] == 2
    assert client.get(f"{models}/net?version=1")["body"]["description"] == "one"
    assert client.get(f"{models}/by-id/{first['id']}") == first
    assert [asset["version"] for asset in client.get(f"{models}?name=net")["assets"]] == [2, 1]
    assert [asset["version"] for asset in client.get(f"{models}?latest=1")["assets"]] == [2]
    assert [asset["version"] for asset in client.get(f"{models}?tag=a%3D1")["assets"]] == [1]


@pytest.mark.parametrize(
    ("model_path", "expected"),
    [
        ("outputs/model", ["model/a.bin", "model/deep/b.bin"]),
        ("outputs/model/", ["model/a.bin", "model/deep/b.bin"]),
        ("./outputs/model2.bin", ["model2.bin"]),
        ("outputs", ["outputs/model/a.bin", "outputs/model/deep/b.bin", "outputs/model2.bin", "outputs/other.txt"]),
    ],
)
def test_a_model_from_a_run_keeps_the_last_part_of_its_path(client, models, run, model_path, expected):
    made = client.post(models, {"name": "from-run", "run_id": run, "model_path": model_path, "body": {}})
    assert paths(made) == expected
    assert made["body"]["run_id"] == run


def test_a_model_path_without_files_names_those_that_are_there(client, models, run):
    refused = client.refusal("POST", models, {"name": "none", "run_id": run, "model_path": "outputs/nothing"})
    assert refused["code"] == "not_found"
    assert "outputs/model2.bin" in refused["problem"]


def test_a_log_can_be_a_model(client, models, run):
    client.post(f"/runs/{run}/logs/logs/notes.txt?offset=0", b"notes")
    made = client.post(models, {"name": "log", "run_id": run, "model_path": "logs/notes.txt"})
    assert client.read(f"/blobs/{made['body']['files'][0][1]}") == b"notes"


@pytest.mark.parametrize("files", [None, 7, [["../x", "0" * 64, 1, 0o644]], [["x", "zz", 1, 0o644]], [["x"]]])
def test_a_model_of_odd_files_is_refused(client, models, files):
    assert client.refusal("POST", models, {"name": "odd", "body": {"files": files}})["status"] == 400


def test_a_change_merges_and_a_null_removes(client, models):
    body = {"files": [], "description": "old", "cpu": 2}
    client.post(models, {"name": "change", "body": body, "tags": {"a": "1", "b": "2"}})
    changed = client.patch(f"{models}/change", {"body": {"description": "new", "cpu": None}, "tags": {"a": None}})
    assert changed["body"]["description"] == "new"
    assert "cpu" not in changed["body"]
    assert changed["tags"] == {"b": "2"}


def test_one_version_or_all_are_deleted(client, models):
    for _ in range(3):
        client.post(models, {"name": "gone", "body": {"files": []}})
    client.delete(f"{models}/gone?version=2")
    assert [asset["version"] for asset in client.get(f"{models}?name=gone")["assets"]] == [3, 1]
    client.delete(f"{models}/gone")
    client.delete(f"{models}/gone")
    refused = client.refusal("GET", f"{models}/gone")
    assert refused["code"] == "not_found"
    assert refused["problem"].startswith("There is no model 'gone'")


@pytest.mark.parametrize("name", ["", "a/b", "a:1", "..", "a\0b", "x" * 256, "\ud800", 7])
def test_a_model_name_that_breaks_the_rules_is_refused(client, models, name):
    assert client.refusal("POST", models, {"name": name, "body": {"files": []}})["status"] == 400


def test_an_unchanged_environment_stays_one_version(client):
    environments = f"{client.here}/assets/environments"
    first = client.post(environments, {"name": "env", "body": {"python": {"a": 1}}})
    assert client.post(environments, {"name": "env", "body": {"python": {"a": 1}}}) == first
    assert client.post(environments, {"name": "env", "body": {"python": {"a": 2}}})["version"] == 2


def test_exactly_one_datastore_is_the_default(client, tmp_path):
    stores = f"{client.here}/assets/datastores"
    folder = {"kind": "folder", "settings": {"folder": str(tmp_path)}}
    client.post(f"{client.here}/datastores", {"name": "mine", **folder})
    client.patch(f"{stores}/mine", {"body": {"is_default": True}})
    client.patch(f"{stores}/mine", {"body": {"is_default": False}})
    defaults = [asset["name"] for asset in client.get(stores)["assets"] if asset["body"]["is_default"]]
    assert defaults == ["mine"]
    assert client.refusal("DELETE", f"{stores}/mine")["code"] == "conflict"
    client.patch(f"{stores}/workspacefilestore", {"body": {"is_default": True}})
    client.delete(f"{stores}/mine")
    defaults = [asset["name"] for asset in client.get(stores)["assets"] if asset["body"]["is_default"]]
    assert defaults == ["workspacefilestore"]


@pytest.mark.parametrize("kind", ["datasets", "datastores"])
def test_kinds_with_routes_of_their_own_are_not_made_here(client, kind):
    refused = client.refusal("POST", f"{client.here}/assets/{kind}", {"name": "x", "body": {}})
    assert (refused["code"], f"POST /{kind}" in refused["problem"]) == ("invalid_argument", True)


@pytest.mark.parametrize("kind", ["secrets", "nonsense", "Models"])
def test_kinds_that_have_no_route_here_are_not_found(client, kind):
    assert client.refusal("GET", f"{client.here}/assets/{kind}")["code"] == "not_found"
    assert client.refusal("POST", f"{client.here}/assets/{kind}", {"name": "x", "body": {}})["code"] == "not_found"
