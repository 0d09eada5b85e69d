"""Whole runs that read and write data, seen over the wire."""

from pathlib import Path
from typing import Any

import pytest

from runyard.server.lifecycle import start_service
from runyard_sdk.submitter import submitter_facts
from tests.runs.scheduling.conftest import Submitter
from tests.servers.s3_server import BUCKET
from tests.wire_client import WireClient

BLOBS = "workspaceblobstore"
COPIES = """
import os, shutil, sys
source, target = sys.argv[1:3]
for name in os.listdir(source):
    shutil.copy(os.path.join(source, name), os.path.join(target, name))
"""


@pytest.fixture
def submitter(client: WireClient) -> Submitter:
    return Submitter(client)


def _dataset(client: WireClient, datastore: str = BLOBS) -> dict[str, Any]:
    for name in ("a", "b"):
        client.put(f"{client.here}/datastores/{datastore}/files/pets/{name}", name.encode())
    body = {"type": "file", "sources": [{"datastore": datastore, "path": "pets"}]}
    made: dict[str, Any] = client.post(f"{client.here}/datasets", {"name": "pets", "body": body})
    return made


def _definition(dataset: dict[str, Any], datastore: str = BLOBS, mechanism: str = "Mount") -> dict[str, Any]:
    location = {"dataPath": {"datastoreName": datastore, "relativePath": "copies/{run-id}"}}
    options = {"registrationOptions": {"name": "copied pets"}}
    return {
        "arguments": ["DatasetConsumptionConfig:pets", "DatasetOutputConfig:out"],
        "data": {"pets": {"dataLocation": {"dataset": {"id": dataset["id"]}}, "mechanism": mechanism}},
        "outputData": {"out": {"outputLocation": location, "mechanism": "Upload", "additionalOptions": options}},
    }


def test_what_a_run_reads_and_writes_is_known_afterwards(submitter):
    client = submitter.client
    dataset = _dataset(client)
    run = submitter.ended(submitter.submit(COPIES, **_definition(dataset)))
    assert run["status"] == "Completed", run["error"]
    (read,), (written,) = run["inputs"], run["outputs"]
    assert (read["dataset_id"], read["input_name"], read["mode"]) == (dataset["id"], "pets", "Mount")
    assert (written["name"], written["version"], written["output_name"]) == ("copied pets", 1, "out")
    assert client.read(f"{client.here}/datastores/{BLOBS}/files/copies/{run['id']}/b") == b"b"
    made = client.get(f"{client.here}/assets/datasets/by-id/{written['dataset_id']}")
    assert made["body"]["pin"]["files"] == 2
    lineage = client.get(f"{client.here}/datasets/by-id/{made['id']}/lineage")["runs"]
    assert [(use["run_id"], use["direction"]) for use in lineage] == [(run["id"], "output")]


def test_a_script_that_fails_registers_nothing(submitter):
    dataset = _dataset(submitter.client)
    run = submitter.ended(submitter.submit(COPIES + "\nraise SystemExit(3)", **_definition(dataset)))
    assert run["status"] == "Failed"
    named = submitter.client.get(f"{submitter.client.here}/assets/datasets?latest=1")["assets"]
    assert [asset["name"] for asset in named] == ["pets"]


def test_data_that_changed_since_its_version_was_made_is_told_in_the_run(submitter):
    client = submitter.client
    dataset = _dataset(client)
    client.put(f"{client.here}/datastores/{BLOBS}/files/pets/new", b"x")
    run = submitter.ended(submitter.submit(COPIES, **_definition(dataset)))
    assert run["status"] == "Completed", run["error"]
    (warning,) = run["warnings"]
    assert "1 file was added" in warning


def test_an_operator_may_have_such_a_run_refused(home, monkeypatch):
    monkeypatch.setenv("RUNYARD_CHANGED_DATA", "refuse")
    facts = start_service(home, keep=True)
    client = WireClient(facts["url"], facts["token"], "strict")
    client.put(client.here, {})
    dataset = _dataset(client)
    client.put(f"{client.here}/datastores/{BLOBS}/files/pets/new", b"x")
    submitter = Submitter(client)
    run = submitter.ended(submitter.submit(COPIES, **_definition(dataset)))
    assert run["status"] == "Failed"
    assert "1 file was added" in run["error"]["error"]["message"]


@pytest.mark.servers
def test_credentials_leave_no_trace_of_a_run_that_used_them(submitter, s3_server, service):
    client = submitter.client
    keys = {"access_key_id": s3_server.key_id, "secret_access_key": s3_server.key}
    settings = {"bucket": BUCKET, "prefix": client.workspace, "endpoint": s3_server.endpoint}
    client.post(
        f"{client.here}/datastores", {"name": "remote", "kind": "s3", "settings": settings, "credentials": keys}
    )
    dataset = _dataset(client, "remote")
    script = COPIES + "\nprint(dict(os.environ))"
    run = submitter.ended(submitter.submit(script, **_definition(dataset, "remote", "Download")))
    assert run["status"] == "Completed", run["error"]
    assert client.read(f"{client.here}/datastores/remote/files/copies/{run['id']}/a") == b"a"
    for file in Path(service["home"]).rglob("*"):
        if file.is_file():
            assert s3_server.key.encode() not in file.read_bytes(), file


def test_a_run_that_is_given_a_table_has_what_reading_it_takes(submitter):
    client = submitter.client
    client.put(f"{client.here}/datastores/{BLOBS}/files/pets.csv", b"name\nRex\n")
    body = {
        "type": "tabular",
        "sources": [{"datastore": BLOBS, "path": "pets.csv"}],
        "format": {"kind": "delimited", "separator": ",", "header": True},
    }
    dataset = client.post(f"{client.here}/datasets", {"name": "table of pets", "body": body})
    entry = {"dataLocation": {"dataset": {"id": dataset["id"]}}, "mechanism": "Direct"}
    listed = {"python": {"condaDependencies": {"dependencies": [{"pip": ["azureml-defaults"]}]}}}
    # Certificates for the package index are the submitter's, as the SDK sends them.
    definition = {"environment": listed, "data": {"pets": entry}, "runyard": {"submitter": submitter_facts()}}
    run = submitter.ended(submitter.submit("import pandas", **definition))
    assert run["status"] == "Completed", run["error"]
