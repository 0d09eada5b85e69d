"""What was altered on disk is never served as good, and costs only itself."""

import hashlib
import os
import tracemalloc
from pathlib import Path

import pytest

from azureml.core import Experiment, Model, Workspace
from azureml.exceptions import AzureMLException
from runyard.core.errors import BlobDamaged
from runyard.storage.blobs.store import FileBlobStore
from tests.wire_client import WireClient


def alter(path: Path, content: bytes) -> None:
    path.chmod(0o644)
    path.write_bytes(content)


def stored(blobs: FileBlobStore, content: bytes) -> str:
    sha256 = hashlib.sha256(content).hexdigest()
    blobs.put(sha256, [content])
    return sha256


@pytest.mark.parametrize("changed", [b"bad!", b"longer than before"])
def test_an_altered_blob_is_an_error_and_is_stored_again_when_sent_again(tmp_path, changed):
    blobs = FileBlobStore(tmp_path)
    sha256 = stored(blobs, b"good")
    assert blobs.verified_path(sha256).read_bytes() == b"good"
    alter(blobs.local_path(sha256), changed)
    for opened in (blobs, FileBlobStore(tmp_path)):
        with pytest.raises(BlobDamaged, match=f"{sha256} is not what was stored"):
            opened.open(sha256)
        with pytest.raises(BlobDamaged):
            opened.verified_path(sha256, size=4)
    assert blobs.missing([sha256]) == [sha256]
    stored(blobs, b"good")
    assert blobs.missing([sha256]) == []
    assert blobs.open(sha256).read() == b"good"


def test_deleted_blobs_take_no_memory(tmp_path):
    blobs = FileBlobStore(tmp_path)
    grown = []
    for turn in range(3):
        tracemalloc.start()
        for number in range(300):
            stored(blobs, f"{turn} {number}".encode())
        blobs.delete_unused(set(), -60)
        grown.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
    assert grown[-1] < 20_000  # what is known of 300 blobs takes 100,000 bytes


@pytest.mark.parametrize("is_known", [True, False])
def test_a_wrong_size_is_an_error_of_whoever_named_it_and_costs_nobody_else_the_blob(tmp_path, is_known):
    blobs = FileBlobStore(tmp_path)
    sha256 = stored(blobs, b"good")
    for opened in (blobs if is_known else FileBlobStore(tmp_path),) * 2:
        with pytest.raises(BlobDamaged, match="has 4 bytes, not 5"):
            opened.verified_path(sha256, size=5)
        assert opened.missing([sha256]) == []
        assert opened.verified_path(sha256, size=4).read_bytes() == b"good"


def test_content_altered_behind_an_old_time_is_found_where_every_read_is_verified(tmp_path):
    blobs = FileBlobStore(tmp_path)
    sha256 = stored(blobs, b"good")
    path = blobs.verified_path(sha256)
    facts = path.stat()
    path.chmod(0o644)
    with open(path, "r+b") as file:
        file.write(b"baad")
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    with pytest.raises(BlobDamaged):
        blobs.verified_path(sha256, always=True)
    with pytest.raises(BlobDamaged):
        FileBlobStore(tmp_path).open(sha256)


def test_a_blob_that_was_met_again_is_not_hashed_again(tmp_path, monkeypatch):
    blobs = FileBlobStore(tmp_path)
    sha256 = stored(blobs, b"good")
    monkeypatch.setattr("runyard.storage.blobs.store.hash_file", lambda _: pytest.fail("it was hashed"))
    monkeypatch.setattr("runyard.storage.blobs.store.random.random", lambda: 1.0)
    assert blobs.missing([sha256]) == []
    assert blobs.open(sha256).read() == b"good"


@pytest.fixture
def workspace(service, client, monkeypatch, tmp_path):
    monkeypatch.setenv("RUNYARD_HOME", service["home"])
    monkeypatch.chdir(tmp_path)
    return Workspace.get(client.workspace)


def test_one_missing_and_one_altered_file_leave_the_others(service, client: WireClient, workspace, tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    for number in range(14):
        (folder / f"{number:02d}.txt").write_bytes(b"content %d " % number + os.urandom(8))
    run = Experiment(workspace, "verified").start_logging(snapshot_directory=str(folder))
    run.upload_folder("outputs", str(folder))
    run.complete()
    model = run.register_model("net", model_path="outputs")
    blobs = FileBlobStore(Path(service["home"], "blobs"))
    hashes = {file["path"]: file["sha256"] for file in client.get(f"/runs/{run.id}/files?prefix=outputs/")["files"]}
    blobs.local_path(hashes["outputs/03.txt"]).unlink()
    alter(blobs.local_path(hashes["outputs/07.txt"]), b"altered")
    refusal = client.refusal("GET", f"/runs/{run.id}/files/outputs/07.txt")
    assert (refusal["code"], refusal["status"]) == ("blob_damaged", 422)
    assert f"The file 'outputs/07.txt' of run {run.id} is damaged" in refusal["problem"]
    assert "missing" in client.refusal("GET", f"/runs/{run.id}/files/outputs/03.txt")["problem"]
    with pytest.raises(AzureMLException, match=r"2 of 14 files.*'outputs/03.txt'.*missing.*'outputs/07.txt'.*damaged"):
        run.download_files(prefix="outputs", output_directory=str(tmp_path / "got"))
    assert len(list((tmp_path / "got" / "outputs").iterdir())) == 12
    with pytest.raises(AzureMLException, match=r"2 of 14 files.*03.txt.*07.txt"):
        Model(workspace, "net").download(str(tmp_path / "model"))
    assert len(list((tmp_path / "model" / "outputs").iterdir())) == 12
    assert len(model.get_sas_urls()) == 14
    with pytest.raises(AzureMLException, match=r"2 of 14 files are missing or damaged: '03.txt', '07.txt'"):
        run.restore_snapshot(path=str(tmp_path))
