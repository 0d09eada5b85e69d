"""Datastores on real servers, through the service."""

import json
import threading
from typing import Any

import pytest

from runyard.core.records.data import StoreAccess
from tests.data.http.servers import Server
from tests.servers.s3_server import BUCKET, S3Server
from tests.wire_client import PREFIX, WireClient

pytestmark = pytest.mark.servers


def _asked(access: StoreAccess) -> dict[str, Any]:
    if access.kind == "azure":
        settings = {"container_name": access.root, **access.options}
        return {"kind": "azure_blob", "settings": settings, "credentials": dict(access.secrets)}
    bucket, _, prefix = access.root.partition("/")
    settings = {"bucket": bucket, "prefix": prefix, **access.options}
    return {"kind": "s3", "settings": settings, "credentials": dict(access.secrets)}


@pytest.fixture(params=["azurite_access", "s3_access"])
def asked(request: pytest.FixtureRequest) -> dict[str, Any]:
    return _asked(request.getfixturevalue(request.param))


@pytest.fixture
def store(client: WireClient, asked: dict[str, Any]) -> str:
    client.post(f"{client.here}/datastores", {"name": "remote", **asked})
    return f"{client.here}/datastores/remote"


def test_a_file_comes_back_as_it_was_put(client, store):
    data = bytes(range(256)) * 40_000
    stored = client.put(f"{store}/files/a/b.bin", data)
    assert (stored["path"], stored["size"]) == ("a/b.bin", len(data))
    assert client.read(f"{store}/files/a/b.bin") == data
    assert client.ask("GET", f"{PREFIX}{store}/files/a/b.bin", range="bytes=7-8").body == data[7:9]
    assert client.ask("HEAD", f"{PREFIX}{store}/files/a/b.bin").headers["content-length"] == str(len(data))
    assert client.refusal("PUT", f"{store}/files/a/b.bin", b"x")["code"] == "already_exists"
    assert [file["path"] for file in client.get(f"{store}/files")["files"]] == ["a/b.bin"]
    client.delete(f"{store}/files/a/b.bin")
    assert client.refusal("GET", f"{store}/files/a/b.bin")["code"] == "not_found"


def test_local_files_are_adopted(client, store, tmp_path):
    for number in range(20):
        (tmp_path / str(number)).write_text(str(number))
    items = [[str(tmp_path / str(number)), f"in/{number}"] for number in range(20)]
    client.put(f"{store}/files/in/3", b"old")
    answer = client.post(f"{store}/adopt", {"items": items})
    assert (len(answer["written"]), answer["skipped"]) == (19, ["in/3"])
    assert client.read(f"{store}/files/in/3") == b"old"
    assert client.read(f"{store}/files/in/19") == b"19"


def test_a_dataset_of_it_is_pinned_read_and_seen_to_change(client, store):
    for name in ("a", "b"):
        client.put(f"{store}/files/pets/{name}", name.encode())
    body = {"type": "file", "sources": [{"datastore": "remote", "path": "pets/*"}]}
    made = client.post(f"{client.here}/datasets", {"name": "pets", "body": body})
    assert made["body"]["pin"]["files"] == 2
    assert client.read(f"{client.here}/datasets/by-id/{made['id']}/files/b") == b"b"
    client.put(f"{store}/files/pets/a?overwrite=1", b"other")
    (change,) = client.post(f"{client.here}/datasets/resolve", {"id": made["id"]})["changes"]
    assert "1 file was changed" in change


def test_wrong_credentials_are_told_and_not_shown(client, asked):
    wrong = dict.fromkeys(asked["credentials"], "d3Jvbmctc2VjcmV0")
    refusal = client.refusal("POST", f"{client.here}/datastores", {"name": "w", **asked, "credentials": wrong})
    assert refusal["code"] == "access_denied"
    assert "d3Jvbmctc2VjcmV0" not in json.dumps(refusal)
    client.post(f"{client.here}/datastores", {"name": "w", **asked, "credentials": wrong, "skip_validation": True})
    assert client.refusal("GET", f"{client.here}/datastores/w/files")["code"] == "access_denied"


def test_new_credentials_are_used_at_once(client, asked):
    wrong = dict.fromkeys(asked["credentials"], "d3Jvbmctc2VjcmV0")
    route = f"{client.here}/datastores"
    client.post(route, {"name": "w", **asked, "credentials": wrong, "skip_validation": True})
    assert client.refusal("GET", f"{route}/w/files")["code"] == "access_denied"
    client.post(route, {"name": "w", **asked, "overwrite": True})
    assert client.get(f"{route}/w/files") == {"files": []}


def test_a_container_that_is_not_there_is_named(client, asked):
    place = "container_name" if asked["kind"] == "azure_blob" else "bucket"
    settings = {**asked["settings"], place: "no-such-place"}
    refusal = client.refusal("POST", f"{client.here}/datastores", {"name": "none", **asked, "settings": settings})
    assert (refusal["code"], "no-such-place" in refusal["problem"]) == ("not_found", True)


def test_a_container_is_made_where_that_is_asked_for(client, azurite_access):
    asked = _asked(azurite_access)
    settings = {**asked["settings"], "container_name": f"made-for-{client.workspace}"}
    for _ in range(2):
        made = {"name": "made", **asked, "settings": settings, "create_if_not_exists": True}
        client.post(f"{client.here}/datastores", made)
    client.put(f"{client.here}/datastores/made/files/x", b"x")


def test_a_server_that_went_away_is_told_soon(client, tmp_path):
    server = S3Server(tmp_path)
    try:
        server.start()
        access = StoreAccess("s3", BUCKET, {"endpoint": server.endpoint}, _keys(server))
        client.post(f"{client.here}/datastores", {"name": "away", **_asked(access)})
        client.put(f"{client.here}/datastores/away/files/x", b"x")
    finally:
        server.kill()
    assert client.refusal("GET", f"{client.here}/datastores/away/files/x")["code"] == "unreachable"


def test_a_server_that_never_answers_holds_nobody_up(client):
    silent = Server()
    silent.pages["/box/"] = silent.pages["/box"] = lambda line, request: line.stay_silent()
    settings = {"bucket": "box", "endpoint": silent.url}
    try:
        body = {"name": "silent", "kind": "s3", "settings": settings, "skip_validation": True}
        client.post(f"{client.here}/datastores", body)
        asked = [threading.Thread(target=client.refusal, args=("GET", f"{client.here}/datastores/silent/files"))]
        asked[0].start()
        assert client.ask("GET", f"{PREFIX}/health").status == 200
        refusal = client.refusal("POST", f"{client.here}/datasets/resolve", {"body": _whole("silent")})
        asked[0].join()
    finally:
        silent.close()
    assert refusal["code"] == "unreachable"


def _whole(datastore: str) -> dict[str, Any]:
    return {"type": "file", "sources": [{"datastore": datastore, "path": "*"}]}


def _keys(server: S3Server) -> dict[str, str]:
    return {"access_key_id": server.key_id, "secret_access_key": server.key}
