"""Models as the registry keeps them once web services, runs and data name them."""

import sys

import pytest

SCRIPT = b"def init():\n    pass\ndef run(data):\n    return data\n"


def model(wire, name="net", **body):
    content = name.encode()
    whole = {"files": [["w.bin", wire.put_blob(content), len(content), 0o644]], **body}
    return wire.post(f"{wire.here}/assets/models", {"name": name, "body": whole})


def inference(client):
    python = {"userManagedDependencies": True, "interpreterPath": sys.executable}
    files = [["score.py", client.put_blob(SCRIPT), len(SCRIPT), 0o644]]
    return {"entry_script": "score.py", "files": files, "environment": {"python": python}}


@pytest.fixture
def deployed(client):
    """Two versions of a model, of which the first is deployed."""
    model(client)
    model(client)
    client.post(f"{client.here}/services", {"name": "the-service", "models": ["net:1"], "inference": inference(client)})
    yield client
    client.delete(f"{client.here}/services/the-service")


def test_a_deployed_model_is_not_deleted_and_its_services_are_named(deployed):
    models = f"{deployed.here}/assets/models/net"
    for address in (f"{models}?version=1", models):
        refused = deployed.refusal("DELETE", address)
        assert (refused["status"], refused["code"]) == (409, "conflict")
        assert "the-service" in refused["problem"]
    deployed.delete(f"{models}?version=2")
    deployed.delete(f"{deployed.here}/services/the-service")
    deployed.delete(models)
    assert deployed.get(f"{deployed.here}/assets/models")["assets"] == []


def test_everything_that_is_registered_with_a_model_is_kept(client):
    said = {
        "framework": "TensorFlow",
        "framework_version": "1.13.0",
        "cpu": 1.5,
        "memory_in_gb": 2,
        "gpu": 0,
        "sample_input_dataset_id": "in",
        "sample_output_dataset_id": "out",
        "datasets": [["training", "id"]],
        "properties": {"p": "1"},
        "description": "said",
        "client": {"python": "3.11", "packages": {"tensorflow": "2.15.0"}},
        "unpack": True,
    }
    body = model(client, **said)["body"]
    assert {name: body[name] for name in said} == said


def test_properties_are_added_and_stay(client):
    model(client, properties={"a": "1"})
    address = f"{client.here}/assets/models/net"
    assert client.patch(address, {"body": {"properties": {"b": "2"}}})["body"]["properties"] == {"a": "1", "b": "2"}
    refused = client.refusal("PATCH", address, {"body": {"properties": {"a": "2"}}})
    assert (refused["status"], "'a'" in refused["problem"]) == (409, True)
    refused = client.refusal("PATCH", address, {"body": {"properties": "x"}})
    assert refused["status"] == 400


@pytest.mark.parametrize("change", [{"files": []}, {"framework": "Onnx"}, {"run_id": "other"}, {"surprise": 1}])
def test_what_made_a_model_cannot_be_changed_afterwards(client, change):
    model(client, framework="TensorFlow")
    refused = client.refusal("PATCH", f"{client.here}/assets/models/net", {"body": change})
    assert refused["status"] == 400
    assert next(iter(change)) in refused["problem"]


def test_lineage_leads_from_a_model_to_its_run_its_data_and_its_services(client):
    dataset = client.post(
        f"{client.here}/datasets",
        {
            "name": "digits",
            "body": {"type": "file", "sources": [{"datastore": "workspaceblobstore", "path": "d/**"}]},
            "validate": False,
        },
    )
    run = client.interactive_run("training-run")["id"]
    model(client, run_id=run, datasets=[["training", dataset["id"]], "nonsense"])
    client.post(f"{client.here}/services", {"name": "the-service", "models": ["net:1"], "inference": inference(client)})
    found = client.get(f"{client.here}/models/net/lineage?version=1")
    client.delete(f"{client.here}/services/the-service")
    assert found["model"] == "net:1"
    assert (found["run"]["id"], found["run"]["experiment"], found["run"]["lock"]) == (run, "probe", None)
    assert found["datasets"] == [{"dataset_id": dataset["id"], "name": "digits", "version": 1, "scenario": "training"}]
    assert [(service["name"], service["type"]) for service in found["services"]] == [("the-service", "ACI")]


def test_a_model_from_files_has_no_run_in_its_lineage(client):
    model(client)
    assert client.get(f"{client.here}/models/net/lineage")["run"] is None
    assert client.refusal("GET", f"{client.here}/models/none/lineage")["status"] == 404


def test_images_have_versions_and_are_kept_while_they_are_deployed(client):
    model(client)
    body = {"models": ["net:1"], "inference": inference(client), "image_type": "Docker"}
    images = f"{client.here}/assets/images"
    made = [client.post(images, {"name": "box", "body": body})["version"] for _ in range(2)]
    assert made == [1, 2]
    client.post(f"{client.here}/services", {"name": "boxed", "image_id": "box:1"})
    refused = client.refusal("DELETE", f"{images}/box?version=1")
    assert (refused["status"], "boxed" in refused["problem"]) == (409, True)
    client.delete(f"{images}/box?version=2")
    client.delete(f"{client.here}/services/boxed")
    refused = client.refusal("DELETE", f"{client.here}/assets/models/net?version=1")
    assert (refused["status"], "box:1" in refused["problem"]) == (409, True)
    client.delete(f"{images}/box")
    client.delete(f"{client.here}/assets/models/net?version=1")


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        ({"models": ["none:1"]}, 404, "none:1"),
        ({"inference": None}, 400, "scoring script"),
        ({"inference": {"entry_script": "x.py", "files": []}}, 400, "x.py"),
    ],
)
def test_an_image_is_checked_as_a_deployment_is(client, change, status, said):
    model(client)
    body = {"models": ["net:1"], "inference": inference(client), **change}
    refused = client.refusal("POST", f"{client.here}/assets/images", {"name": "box", "body": body})
    assert (refused["status"], said in refused["problem"]) == (status, True)


def test_a_workspace_with_web_services_is_not_deleted(deployed):
    refused = deployed.refusal("DELETE", deployed.here)
    assert (refused["status"], "the-service" in refused["problem"]) == (409, True)


def test_a_kubernetes_cluster_takes_web_services_and_no_runs(client):
    body = {"type": "AKS", "min_nodes": 0, "max_nodes": 3, "vm_size": "", "location": "local"}
    client.post(f"{client.here}/assets/computes", {"name": "kube", "body": body})
    definition = {"script": "train.py", "target": "kube"}
    asked = {"run_id": "on-kube", "definition": definition, "snapshot": []}
    refused = client.refusal("POST", f"{client.here}/experiments/e/runs", asked)
    assert (refused["status"], "web services, not runs" in refused["problem"]) == (400, True)


def test_the_blobs_of_deployed_scripts_and_images_are_not_collected(deployed):
    kept = inference(deployed)["files"][0][1]
    stray = deployed.put_blob(b"nobody names this one")
    deployed.post("/gc", {"older_than_seconds": 0})
    assert deployed.post("/blobs/missing", {"sha256": [kept, stray]})["missing"] == [stray]
    assert "services" in deployed.get("/du")


@pytest.mark.parametrize(("name", "value"), [("cpu", "many"), ("cpu", {}), ("memory_in_gb", -1), ("gpu", 1.5)])
def test_resources_that_are_no_numbers_are_refused_where_they_come_in(client, name, value):
    made = model(client, framework="ScikitLearn", framework_version="1.0")
    models, body = f"{client.here}/assets/models", {"files": [], name: value}
    for refusal in (
        client.refusal("POST", models, {"name": "other", "body": body}),
        client.refusal("PATCH", f"{models}/{made['name']}", {"body": {name: value}}),
    ):
        assert (refusal["status"], refusal["code"]) == (400, "invalid_argument")
        assert refusal["problem"].startswith(f"model.{name} ")
