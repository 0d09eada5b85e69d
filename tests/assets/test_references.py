"""What a body names of another workspace is not there for a run's token, whichever route it is given to."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.attempts import begin_attempt, node_of, script_of
from tests.wire_client import PREFIX, WireClient

SECRET = b"known to the other workspace alone"
LOCATION = {"dataPath": {"datastoreName": "theirs", "relativePath": "x"}}
SWEEP = {
    "sampling": {"name": "RANDOM", "parameter_space": {"lr": ["uniform", [0, 1]]}, "properties": {"seed": 7}},
    "policy": {"name": "Default", "properties": {}},
    "primary_metric": {"name": "accuracy", "goal": "maximize"},
    "max_total_runs": 100,
    "max_concurrent_runs": 4,
    "max_duration_minutes": 90,
}


@dataclass(frozen=True)
class Theirs:
    """What the other workspace has."""

    run_id: str
    sha256: str
    snapshot_id: str
    dataset_id: str
    size: int

    @property
    def row(self) -> list[Any]:
        return ["score.py", self.sha256, self.size, 0o644]

    @property
    def environment(self) -> dict[str, Any]:
        return {"name": "e", "docker": {"buildContext": {"dockerfilePath": "score.py", "files": [self.row]}}}

    @property
    def inference(self) -> dict[str, Any]:
        return {"entry_script": "score.py", "files": [self.row], "environment": {"name": "e"}}


@pytest.fixture
def theirs(client: WireClient, tmp_path) -> Theirs:
    other = WireClient(client.url, client.token, workspace=f"{client.workspace}-other")
    other.put(other.here, {"exist_ok": True})
    secret = SECRET + client.workspace.encode()
    row = ["score.py", other.put_blob(secret), len(secret), 0o644]
    run = other.interactive_run(f"theirs-{client.workspace}", snapshot=[row])
    other.post(f"/runs/{run['id']}/files", {"entries": [row], "fail_if_exists": False})
    other.post(f"{other.here}/assets/models", {"name": "their-model", "body": {"files": [row]}})
    other.post(f"{other.here}/assets/computes", {"name": "their-cpu", "body": {"type": "AmlCompute", "max_nodes": 1}})
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "x").write_bytes(secret)
    other.post(f"{other.here}/datastores", {"name": "theirs", "kind": "folder", "settings": {"folder": str(folder)}})
    saved = {"name": "", "body": {"type": "file", "sources": [{"datastore": "theirs", "path": "x"}]}}
    dataset = other.post(f"{other.here}/datasets", saved)
    return Theirs(run["id"], row[1], run["snapshot_id"], dataset["id"], row[2])


@pytest.fixture
def script(client: WireClient) -> WireClient:
    client.interactive_run(f"mine-{client.workspace}", definition=LINKED)
    script = script_of(client, f"mine-{client.workspace}")
    script.post(f"{client.here}/assets/environments", {"name": "mine", "body": {"name": "mine"}})
    script.put_blob(b"pass")
    return script


CODE = {
    "entry_script": "score.py",
    "files": [["score.py", hashlib.sha256(b"pass").hexdigest(), 4, 0o644]],
    "environment": {"name": "e"},
}
LINKED = {"outputData": {"linked": {"outputLocation": {}, "mechanism": "Link"}}}
Body = Callable[[Theirs], Any]
OWN_RUN = "/runs/{mine}"
SPACE = "/workspaces/{space}"
RUNS = f"{SPACE}/experiments/probe/runs"


def submitted(**more: Any) -> dict[str, Any]:
    return {"run_id": "new", "definition": {"script": "train.py", "target": "local"}, **more}


BLOBS: dict[str, tuple[str, str, Body]] = {
    "files of a run": ("POST", f"{OWN_RUN}/files", lambda o: {"entries": [o.row]}),
    "snapshot of a run": ("PUT", f"{OWN_RUN}/snapshot", lambda o: {"snapshot": [o.row]}),
    "snapshot of a new run": ("POST", RUNS, lambda o: submitted(snapshot=[o.row], interactive=True)),
    "environment of a new run": (
        "POST",
        RUNS,
        lambda o: submitted(interactive=True, definition={"environment": o.environment}),
    ),
    "files of a model": ("POST", f"{SPACE}/assets/models", lambda o: {"name": "m", "body": {"files": [o.row]}}),
    "environment": ("POST", f"{SPACE}/assets/environments", lambda o: {"name": "e", "body": o.environment}),
    "change of an environment": ("PATCH", f"{SPACE}/assets/environments/mine", lambda o: {"body": o.environment}),
    "image": (
        "POST",
        f"{SPACE}/assets/images",
        lambda o: {"name": "i", "body": {"models": [], "inference": o.inference}},
    ),
    "environment of an image": (
        "POST",
        f"{SPACE}/assets/images",
        lambda o: {"name": "i", "body": {"models": [], "inference": {**o.inference, "environment": o.environment}}},
    ),
    "build": ("POST", f"{SPACE}/builds", lambda o: {"environment": o.environment}),
    "files of a build": (
        "POST",
        f"{SPACE}/builds",
        lambda o: {"environment": {"docker": {"buildContext": {"dockerfilePath": "score.py"}}}, "files": [o.row]},
    ),
    "web service": (
        "POST",
        f"{SPACE}/services",
        lambda o: {"name": "web-one", "type": "ACI", "inference": o.inference},
    ),
    "package": ("POST", f"{SPACE}/packages", lambda o: {"inference": o.inference}),
    "profile": ("POST", f"{SPACE}/profiles", lambda o: {"name": "p", "inference": o.inference, "rows": ["1"]}),
}
"""Routes whose body names blobs."""

REFERENCES: dict[str, tuple[str, str, Body]] = {
    "run of a model": (
        "POST",
        f"{SPACE}/assets/models",
        lambda o: {"name": "m", "run_id": o.run_id, "model_path": "score.py"},
    ),
    "run of a model's body": (
        "POST",
        f"{SPACE}/assets/models",
        lambda o: {"name": "m", "body": {"run_id": o.run_id, "model_path": "score.py"}},
    ),
    "run beside a model's files": (
        "POST",
        f"{SPACE}/assets/models",
        lambda o: {"name": "m", "run_id": o.run_id, "body": {"files": []}},
    ),
    "parent": ("POST", RUNS, lambda o: submitted(interactive=True, parent_id=o.run_id)),
    "run_id": ("POST", RUNS, lambda o: submitted(interactive=True) | {"run_id": o.run_id}),
    "resumed sweep": (
        "POST",
        RUNS,
        lambda o: submitted(type="hyperdrive", definition={"runyard": {"sweep": {**SWEEP, "resume_from": [o.run_id]}}}),
    ),
    "resumed child of a sweep": (
        "POST",
        RUNS,
        lambda o: submitted(
            type="hyperdrive", definition={"runyard": {"sweep": {**SWEEP, "resume_child_runs": [o.run_id]}}}
        ),
    ),
    "reference of a run": (
        "POST",
        RUNS,
        lambda o: submitted(
            interactive=True,
            definition={"dataReferences": {"r": {"dataStoreName": "theirs", "mode": "Mount", "pathOnDataStore": "x"}}},
        ),
    ),
    "dataset of a profile": (
        "POST",
        f"{SPACE}/profiles",
        lambda o: {"name": "p", "inference": CODE, "dataset_id": o.dataset_id},
    ),
    "outputs of a run": (
        "POST",
        RUNS,
        lambda o: submitted(interactive=True, definition={"runyard": {"outputs_of": o.run_id}}),
    ),
    "dataset of a run": (
        "POST",
        RUNS,
        lambda o: submitted(
            interactive=True,
            definition={"data": {"d": {"dataLocation": {"dataset": {"id": o.dataset_id}}, "mechanism": "Mount"}}},
        ),
    ),
    "datastore of a run": (
        "POST",
        RUNS,
        lambda o: submitted(
            interactive=True, definition={"outputData": {"o": {"outputLocation": LOCATION, "mechanism": "Mount"}}}
        ),
    ),
    "compute of a run": ("POST", RUNS, lambda o: submitted(definition={"script": "t.py", "target": "their-cpu"})),
    "linked output": ("POST", f"{OWN_RUN}/outputs", lambda o: {"name": "linked", "dataset_id": o.dataset_id}),
    "dataset to resolve": ("POST", f"{SPACE}/datasets/resolve", lambda o: {"id": o.dataset_id}),
    "datastore to resolve": (
        "POST",
        f"{SPACE}/datasets/resolve",
        lambda o: {"body": {"type": "file", "sources": [{"datastore": "theirs", "path": "x"}]}},
    ),
    "datastore of a dataset": (
        "POST",
        f"{SPACE}/datasets",
        lambda o: {"name": "d", "body": {"type": "file", "sources": [{"datastore": "theirs", "path": "x"}]}},
    ),
    "model of a web service": ("POST", f"{SPACE}/services", lambda o: {"name": "web-one", "models": ["their-model:1"]}),
    "image of a web service": ("POST", f"{SPACE}/services", lambda o: {"name": "web-one", "image_id": "their-image:1"}),
    "model of a package": ("POST", f"{SPACE}/packages", lambda o: {"models": ["their-model:1"]}),
    "model of an image": (
        "POST",
        f"{SPACE}/assets/images",
        lambda o: {"name": "i", "body": {"models": ["their-model:1"], "inference": CODE}},
    ),
    "model of a profile": (
        "POST",
        f"{SPACE}/profiles",
        lambda o: {"name": "p", "models": ["their-model:1"], "rows": ["1"]},
    ),
    "another run's files": ("POST", "/runs/{theirs}/files", lambda o: {"entries": []}),
    "another run's rerun": ("POST", "/runs/{theirs}/rerun", lambda o: {"run_id": "again"}),
}
"""Routes whose body, or address, names something else of a workspace."""

OTHER_CODES = {"run_id": ("already_exists",), "outputs of a run": ("invalid_argument",)}

READS = (
    "/blobs/{sha256}",
    "/snapshots/{snapshot}",
    "/snapshots/{snapshot}/zip",
    "/runs/{theirs}",
    "/runs/{theirs}/files/score.py",
    "/workspaces/{space}/datasets/by-id/{dataset}/files/x",
    "/workspaces/{space}/datasets/by-id/{dataset}/access",
    "/workspaces/{space}/datasets/by-id/{dataset}/lineage",
    "/workspaces/{space}/assets/datasets/by-id/{dataset}",
    "/workspaces/{space}/builds/{theirs}",
)


def filled(path: str, client: WireClient, theirs: Theirs) -> str:
    return PREFIX + path.format(
        mine=f"mine-{client.workspace}",
        space=client.workspace,
        theirs=theirs.run_id,
        sha256=theirs.sha256,
        snapshot=theirs.snapshot_id,
        dataset=theirs.dataset_id,
    )


@pytest.mark.parametrize("name", BLOBS)
def test_a_hash_of_another_workspace_is_missing_to_a_script(client, script, theirs, name):
    method, path, body = BLOBS[name]
    answer = script.ask(method, filled(path, client, theirs), body(theirs))
    assert (answer.status, answer.json["code"]) == (409, "blobs_missing"), answer.body
    assert answer.json["facts"]["sha256"] == [theirs.sha256]


@pytest.mark.parametrize("name", REFERENCES)
def test_a_reference_to_another_workspace_is_refused(client, script, theirs, name):
    method, path, body = REFERENCES[name]
    answer = script.ask(method, filled(path, client, theirs), body(theirs))
    assert answer.json["code"] in OTHER_CODES.get(name, ("not_found", "unauthorized", "forbidden")), answer.body
    assert SECRET not in answer.body
    assert f"{client.workspace}-other".encode() not in answer.body


@pytest.mark.parametrize("path", READS)
def test_nothing_of_another_workspace_is_read(client, script, theirs, path):
    answer = script.ask("GET", filled(path, client, theirs))
    assert answer.status in (401, 403, 404), answer.body
    assert SECRET not in answer.body


def test_who_sends_the_bytes_may_name_them(client, script, theirs):
    secret, run = SECRET + client.workspace.encode(), f"/runs/mine-{client.workspace}"
    assert script.post("/blobs/missing", {"sha256": [theirs.sha256]}) == {"missing": [theirs.sha256]}
    assert script.refusal("PUT", f"/blobs/{theirs.sha256}", b"a guess")["code"] == "invalid_argument"
    assert script.refusal("GET", f"/blobs/{theirs.sha256}")["code"] == "not_found"
    assert script.put(f"/blobs/{theirs.sha256}", secret) == {"size": len(secret)}
    assert script.post("/blobs/missing", {"sha256": [theirs.sha256]}) == {"missing": []}
    script.post(f"{run}/files", {"entries": [theirs.row]})
    assert script.read(f"/blobs/{theirs.sha256}") == secret


def test_a_pack_shows_what_it_holds(client, script, theirs):
    secret = SECRET + client.workspace.encode()
    script.post("/blobs/pack", f"{theirs.sha256} {len(secret)}\n".encode() + secret)
    assert script.post("/blobs/missing", {"sha256": [theirs.sha256]}) == {"missing": []}


def test_a_node_names_no_blob_of_another_workspace(client, theirs):
    run_id = f"node-{client.workspace}"
    client.interactive_run(run_id)
    node = node_of(client, run_id)
    assert node.refusal("GET", f"/blobs/{theirs.sha256}")["code"] == "not_found"
    assert node.refusal("POST", f"/runs/{run_id}/files", {"entries": [theirs.row]})["code"] == "blobs_missing"
    wheel = {
        "key": "a" * 24,
        "python": "3.11",
        "lock": "x",
        "wheels": [["b" * 24, "x-1-py3-none-any.whl", theirs.sha256]],
    }
    assert node.refusal("POST", f"/attempts/{run_id}.1/environment", wheel)["code"] == "blobs_missing"


def test_a_node_reads_what_its_run_is_made_of(client, theirs):
    content = b"own code of " + client.workspace.encode()
    row = ["train.py", client.put_blob(content), len(content), 0o644]
    client.interactive_run(f"own-{client.workspace}", snapshot=[row])
    assert node_of(client, f"own-{client.workspace}").read(f"/blobs/{row[1]}") == content


def test_a_script_reads_models_and_snapshots_of_its_workspace(client, script):
    content = b"model of " + client.workspace.encode()
    row = ["model.bin", client.put_blob(content), len(content), 0o644]
    client.post(f"{client.here}/assets/models", {"name": "m", "body": {"files": [row]}})
    snapshot = client.interactive_run(f"neighbour-{client.workspace}", snapshot=[row])["snapshot_id"]
    assert script.read(f"/blobs/{row[1]}") == content
    assert script.get(f"/snapshots/{snapshot}")["entries"] == [row]


def test_a_property_or_a_description_opens_no_blob(client, script, theirs):
    run = f"/runs/mine-{client.workspace}"
    script.patch(run, {"properties": {"ContentSnapshotId": theirs.snapshot_id}})
    assert script.refusal("GET", f"/snapshots/{theirs.snapshot_id}")["code"] == "not_found"
    named = {"name": "named", "body": {"files": [], "description": theirs.sha256, "properties": {"a": theirs.sha256}}}
    script.post(f"{client.here}/assets/models", named)
    script.interactive_run("names-it", definition={"arguments": [theirs.sha256]}, parent_id=f"mine-{client.workspace}")
    begin_attempt(client.get("/health")["home"], "names-it")
    assert script.refusal("GET", f"/blobs/{theirs.sha256}")["code"] == "not_found"
    assert script_of(client, "names-it").refusal("GET", f"/blobs/{theirs.sha256}")["code"] == "not_found"


def test_a_model_of_a_run_that_came_later_shows_nothing_of_it(client, script):
    """A model may name a run that is gone; the id may be taken in another workspace afterwards."""
    later = f"later-{client.workspace}"
    script.post(f"{client.here}/assets/models", {"name": "m", "run_id": later, "body": {"files": []}})
    other = WireClient(client.url, client.token, workspace=f"{client.workspace}-other")
    other.put(other.here, {"exist_ok": True})
    other.interactive_run(later, definition={"script": "secret.py"})
    assert script.get(f"{client.here}/models/m/lineage")["run"] is None


def test_the_owner_names_any_blob(client, theirs):
    run_id = f"owners-{client.workspace}"
    client.interactive_run(run_id)
    client.post(f"/runs/{run_id}/files", {"entries": [theirs.row]})
    assert hashlib.sha256(client.read(f"/blobs/{theirs.sha256}")).hexdigest() == theirs.sha256
