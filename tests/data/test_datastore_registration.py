import json
from pathlib import Path

import pytest

from runyard.testing.race import WRITERS, race
from tests.attempts import node_of, script_of
from tests.wire_client import PREFIX, WireClient

SECRET = "c2VjcmV0LW9mLW5vYm9keS1lbHNl"
S3 = {
    "kind": "s3",
    "settings": {"bucket": "pets", "region": "eu-west-1", "endpoint": "http://127.0.0.1:9"},
    "credentials": {"access_key_id": "AKID", "secret_access_key": SECRET},
    "skip_validation": True,
}


def register(client: WireClient, name: str, **body):
    return client.post(f"{client.here}/datastores", {"name": name, **body})


def refused(client: WireClient, name: str, **body):
    return client.refusal("POST", f"{client.here}/datastores", {"name": name, **body})


def test_a_folder_becomes_a_datastore(client, tmp_path):
    (tmp_path / "a.csv").write_text("1,2")
    made = register(client, "scans", kind="folder", settings={"folder": str(tmp_path)})
    assert made["body"] == {
        "kind": "folder",
        "settings": {"folder": str(tmp_path)},
        "credential_type": "None",
        "v1_type": "Folder",
        "is_default": False,
    }
    files = client.get(f"{client.here}/datastores/scans/files")["files"]
    assert [(file["path"], file["size"]) for file in files] == [("a.csv", 3)]


def test_what_a_datastore_is_said_to_be_follows_from_its_kind_and_credentials(client):
    blob = {"account_name": "acme", "container_name": "raw"}
    for name, kind, settings, credentials, v1_type, type_ in (
        ("one", "azure_blob", blob, {"account_key": "a2V5"}, "AzureBlob", "AccountKey"),
        ("two", "azure_blob", blob, {"sas_token": "?sig=x"}, "AzureBlob", "Sas"),
        ("three", "azure_blob", blob, {}, "AzureBlob", "None"),
        ("four", "s3", {"bucket": "b"}, S3["credentials"], "S3", "AccessKey"),
        ("six", "web", {"address": "https://data.example/x/"}, {}, "Web", "None"),
    ):
        body = register(client, name, kind=kind, settings=settings, credentials=credentials, skip_validation=True)[
            "body"
        ]
        assert (body["v1_type"], body["credential_type"]) == (v1_type, type_)


def test_the_same_again_changes_nothing_and_another_needs_overwrite(client):
    first = register(client, "pets", **S3)
    assert register(client, "pets", **S3)["id"] == first["id"]
    other = {**S3, "settings": {**S3["settings"], "bucket": "cats"}}
    assert refused(client, "pets", **other)["code"] == "already_exists"
    rotated = {**S3, "credentials": {"access_key_id": "AKID", "secret_access_key": "other"}}
    refusal = refused(client, "pets", **rotated)
    assert refusal["code"] == "already_exists"
    assert "overwrite=True" in refusal["hint"]
    register(client, "pets", **rotated, overwrite=True)
    assert client.get(f"{client.here}/datastores/pets/credentials")["secret_access_key"] == "other"
    assert register(client, "pets", **other, overwrite=True)["body"]["settings"]["bucket"] == "cats"


def test_one_of_eight_who_register_a_name_at_once_wins(client, tmp_path):
    def attempt(number: int):
        folder = tmp_path / str(number)
        folder.mkdir()
        body = {"name": "raced", "kind": "folder", "settings": {"folder": str(folder)}}
        return client.ask("POST", f"{PREFIX}{client.here}/datastores", body).status

    assert sorted(race(attempt)) == [200] + [409] * (WRITERS - 1)


def test_a_default_that_is_registered_again_stays_the_default(client, tmp_path):
    folder = {"kind": "folder", "settings": {"folder": str(tmp_path)}}
    register(client, "mine", **folder)
    client.patch(f"{client.here}/assets/datastores/mine", {"body": {"is_default": True}})
    assert register(client, "mine", **folder, overwrite=True)["body"]["is_default"]
    refusal = client.refusal("DELETE", f"{client.here}/assets/datastores/mine")
    assert (refusal["code"], "default" in refusal["problem"]) == ("conflict", True)


def test_unregistering_leaves_the_data_and_forgets_the_credentials(client, tmp_path, service):
    (tmp_path / "kept").write_text("x")
    register(client, "mine", kind="folder", settings={"folder": str(tmp_path)})
    register(client, "pets", **S3)
    for name in ("mine", "pets"):
        client.delete(f"{client.here}/assets/datastores/{name}")
    assert (tmp_path / "kept").exists()
    assert client.refusal("GET", f"{client.here}/datastores/pets/credentials")["code"] == "not_found"
    register(client, "pets", **{**S3, "credentials": {}})
    assert client.get(f"{client.here}/datastores/pets/credentials") == {}


def test_credentials_are_for_the_owner_alone(client):
    register(client, "pets", **S3)
    assert client.get(f"{client.here}/datastores/pets/credentials") == S3["credentials"]
    run_id = client.interactive_run(f"creds-{client.workspace}")["id"]
    for other in (script_of(client, run_id), node_of(client, run_id)):
        assert other.refusal("GET", f"{client.here}/datastores/pets/credentials")["code"] == "forbidden"
        assert SECRET.encode() not in other.ask("GET", f"{PREFIX}{client.here}/assets/datastores/pets").body


def test_credentials_are_nowhere_in_the_clear(client, service):
    register(client, "pets", **S3)
    refused(client, "pets", **{**S3, "settings": {"bucket": "other"}})
    refusal = refused(client, "away", **{**S3, "skip_validation": False})
    assert (refusal["code"], SECRET in json.dumps(refusal)) == ("unreachable", False)
    assert client.refusal("GET", f"{client.here}/assets/datastores/away")["code"] == "not_found"
    assert SECRET not in json.dumps(client.get(f"{client.here}/assets/datastores"))
    names = [secret["name"] for secret in client.get(f"{client.here}/secrets")["secrets"]]
    assert names == []
    for file in Path(service["home"]).rglob("*"):
        if file.is_file():
            assert SECRET.encode() not in file.read_bytes(), file


@pytest.mark.parametrize("name", ["datastores%2fpets%2fx", "datastores%252fpets", "a%2fb"])
def test_a_secret_of_the_service_cannot_be_read_or_changed_as_a_users(client, name):
    register(client, "pets", **S3)
    for method in ("GET", "PUT", "DELETE"):
        body = {"value": "mine"} if method == "PUT" else None
        answer = client.ask(method, f"{PREFIX}{client.here}/secrets/{name}", body)
        assert answer.status in (400, 404) or method != "GET", answer.body
    assert client.get(f"{client.here}/datastores/pets/credentials") == S3["credentials"]


def test_a_folder_that_is_not_there_is_refused_unless_it_may_be_made(client, tmp_path):
    folder = tmp_path / "not" / "yet"
    asked = {"kind": "folder", "settings": {"folder": str(folder)}}
    assert refused(client, "later", **asked)["code"] == "not_found"
    register(client, "later", **asked, create_if_not_exists=True)
    assert folder.is_dir()


def test_the_services_own_folders_are_no_datastores(client, service, tmp_path):
    (tmp_path / "sly").symlink_to(service["home"])
    for folder in (service["home"], f"{service['home']}/blobs", str(tmp_path / "sly")):
        refusal = refused(client, "own", kind="folder", settings={"folder": folder})
        assert (refusal["code"], "own files" in refusal["problem"]) == ("invalid_argument", True)


def test_a_script_cannot_open_any_folder(client, tmp_path):
    run_id = client.interactive_run(f"folder-{client.workspace}")["id"]
    script = script_of(client, run_id)
    refusal = refused(script, "mine", kind="folder", settings={"folder": str(tmp_path)})
    assert "RUNYARD_DATA_FOLDERS" in refusal["hint"]


def test_the_two_datastores_of_every_workspace_cannot_be_replaced(client, tmp_path):
    for name in ("workspaceblobstore", "workspacefilestore"):
        refusal = refused(client, name, kind="folder", settings={"folder": str(tmp_path)}, overwrite=True)
        assert refusal["code"] == "already_exists"


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"kind": "ftp"}, "ftp"),
        ({"kind": "workspace"}, "workspace"),
        ({"kind": 7}, "kind"),
        ({"kind": "s3"}, "bucket"),
        ({"kind": "s3", "settings": {"bucket": ""}}, "bucket"),
        ({"kind": "s3", "settings": {"bucket": 7}}, "bucket"),
        ({"kind": "s3", "settings": {"bucket": "a/../b"}}, "bucket"),
        ({"kind": "s3", "settings": {"bucket": "a\nb"}}, "bucket"),
        ({"kind": "s3", "settings": {"bucket": "b", "prefix": "../up"}}, "prefix"),
        ({"kind": "s3", "settings": {"bucket": "b", "prefix": "/abs"}}, "prefix"),
        ({"kind": "s3", "settings": {"bucket": "b", "colour": "red"}}, "colour"),
        ({"kind": "s3", "settings": {"bucket": "b" * 5000}}, "bucket"),
        ({"kind": "s3", "settings": {"bucket": "b", "endpoint": "ftp://x"}}, "endpoint"),
        ({"kind": "s3", "settings": {"bucket": "b", "endpoint": "http://me:pw@x"}}, "endpoint"),
        ({"kind": "azure_blob", "settings": {"account_name": "a", "container_name": "b", "endpoint": "["}}, "endpoint"),
        ({"kind": "s3", "settings": {"bucket": "b"}, "credentials": {"access_key_id": "x"}}, "secret_access_key"),
        ({"kind": "s3", "settings": {"bucket": "b"}, "credentials": {"account_key": "x"}}, "account_key"),
        ({"kind": "s3", "settings": [], "credentials": {}}, "settings"),
        ({"kind": "folder", "settings": {"folder": "relative"}}, "folder"),
        ({"kind": "folder", "settings": {"folder": "/a\0b"}}, "folder"),
        ({"kind": "web", "settings": {"address": "data.example"}}, "address"),
        ({"kind": "web", "settings": {"address": "http://x/?sig=1"}}, "address"),
        ({"kind": "folder", "settings": {"folder": "/"}, "overwrite": "yes"}, "overwrite"),
    ],
)
def test_what_is_not_right_is_refused_by_its_name(client, body, named):
    refusal = refused(client, "odd", **body)
    assert refusal["code"] == "invalid_argument"
    assert named in refusal["problem"]


@pytest.mark.parametrize("name", ["", "a/b", "../x", "a b", "x" * 200, "a\nb", "ümlaut\0", "."])
def test_a_name_that_could_be_no_folder_is_refused(client, tmp_path, name):
    refusal = refused(client, name, kind="folder", settings={"folder": str(tmp_path)})
    assert refusal["code"] == "invalid_argument"


def test_a_wrong_credential_is_never_shown(client):
    refusal = refused(client, "odd", kind="s3", settings={"bucket": "b"}, credentials={"secret_access_key": SECRET})
    assert SECRET not in json.dumps(refusal)
    refusal = refused(client, "odd", kind="s3", settings={"bucket": "b"}, credentials={"secret_access_key": [SECRET]})
    assert SECRET not in json.dumps(refusal)


def test_a_datastore_cannot_be_made_or_rewritten_as_any_other_asset(client, tmp_path):
    body = {"kind": "folder", "settings": {"folder": "/"}}
    route = f"{client.here}/assets/datastores"
    assert client.refusal("POST", route, {"name": "sly", "body": body})["code"] == "invalid_argument"
    register(client, "mine", kind="folder", settings={"folder": str(tmp_path)})
    for change in ({"settings": {"folder": "/"}}, {"credentials_id": "datastores/pets/x"}, {"kind": "workspace"}):
        assert client.refusal("PATCH", f"{route}/mine", {"body": change})["code"] == "invalid_argument"
