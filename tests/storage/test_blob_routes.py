import hashlib
import io
import socket
import zipfile
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.wire_client import PREFIX


def digest(data):
    return hashlib.sha256(data).hexdigest()


def test_a_blob_comes_back_as_it_was_sent(client):
    data = bytes(range(256)) * 10_000
    assert client.post("/blobs/missing", {"sha256": [digest(data)]}) == {"missing": [digest(data)]}
    assert client.put(f"/blobs/{digest(data)}", data) == {"size": len(data)}
    assert client.put(f"/blobs/{digest(data)}", data) == {"size": len(data)}
    assert client.post("/blobs/missing", {"sha256": [digest(data)]}) == {"missing": []}
    assert client.read(f"/blobs/{digest(data)}") == data


def test_bytes_under_a_wrong_name_are_refused(client):
    name = digest(b"what it should be")
    assert client.refusal("PUT", f"/blobs/{name}", b"what it is")["code"] == "invalid_argument"
    assert client.post("/blobs/missing", {"sha256": [name]}) == {"missing": [name]}


@pytest.mark.parametrize("name", ["abc", "..%2f..%2fx", "A" * 64, "g" * 64])
def test_a_name_that_is_no_hash_is_refused(client, name):
    assert client.ask("PUT", f"{PREFIX}/blobs/{name}", b"x").status in (400, 404, 405)
    assert client.ask("GET", f"{PREFIX}/blobs/{name}").status in (400, 404)


def test_an_unknown_blob_is_not_found(client):
    assert client.refusal("GET", f"/blobs/{digest(b'unknown')}")["code"] == "not_found"


def test_many_blobs_go_in_one_pack(client):
    several = [b"", b"a", b"line\nline\n", bytes(3_000_000)]
    pack = b"".join(digest(data).encode() + b" %d\n" % len(data) + data for data in several)
    client.post("/blobs/pack", pack)
    assert [client.read(f"/blobs/{digest(data)}") for data in several] == several


@pytest.mark.parametrize(
    "pack",
    [
        b"nonsense",
        digest(b"a").encode() + b" 5\na",
        digest(b"a").encode() + b" -1\na",
        digest(b"a").encode() + b" x\na",
        digest(b"other").encode() + b" 1\nz",
        b"../../x 1\na",
        digest(b"a").encode() + b" 99999999999999\na",
        b"\n" + b"x" * 1000,
    ],
)
def test_a_broken_pack_is_refused(client, pack):
    assert client.refusal("POST", "/blobs/pack", pack)["status"] in (400, 413)


def test_files_of_this_machine_are_adopted(client, tmp_path):
    (tmp_path / "a").write_bytes(b"adopt me")
    answer = client.post("/blobs/adopt", {"paths": [str(tmp_path / "a")]})
    assert answer == {"entries": [[digest(b"adopt me"), 8]]}
    assert client.refusal("POST", "/blobs/adopt", {"paths": [str(tmp_path / "none")]})["code"] == "not_found"
    assert client.refusal("POST", "/blobs/adopt", {"paths": ["relative"]})["code"] == "invalid_argument"
    assert client.refusal("POST", "/blobs/adopt", {"paths": [str(tmp_path)]})["code"] == "not_found"


def test_a_snapshot_comes_as_a_zip_with_its_modes(client):
    files = {"train.py": (b"print(1)", 0o644), "tools/run.sh": (b"#!/bin/sh\n" * 1000, 0o755)}
    entries = [[path, client.put_blob(data), len(data), mode] for path, (data, mode) in files.items()]
    snapshot = client.interactive_run(f"zip-{client.workspace}", snapshot=entries)["snapshot_id"]
    with zipfile.ZipFile(io.BytesIO(client.read(f"/snapshots/{snapshot}/zip"))) as archive:
        assert archive.testzip() is None
        found = {info.filename: (archive.read(info), (info.external_attr >> 16) & 0o777) for info in archive.infolist()}
    assert found == files
    assert client.refusal("GET", "/snapshots/none")["code"] == "not_found"
    assert client.refusal("GET", "/snapshots/none/zip")["code"] == "not_found"


def test_a_connection_that_breaks_halfway_leaves_nothing(client, service):
    address = urlsplit(client.url)
    name = digest(bytes(5_000_000))
    log = Path(service["home"], "service.log")
    logged_before = log.stat().st_size  # other tests provoke tracebacks of their own
    with socket.create_connection((address.hostname, address.port)) as connection:
        head = f"PUT {PREFIX}/blobs/{name} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {client.token}\r\n"
        connection.sendall(f"{head}Content-Length: 5000000\r\n\r\n".encode() + bytes(2_000_000))
    assert client.post("/blobs/missing", {"sha256": [name]}) == {"missing": [name]}
    assert client.put(f"/blobs/{name}", bytes(5_000_000)) == {"size": 5_000_000}
    assert b"Traceback" not in log.read_bytes()[logged_before:]
