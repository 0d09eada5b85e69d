import json
import os
from pathlib import Path

from tests.wire_client import WireClient


def test_du_names_the_parts_of_the_home(client):
    client.put_blob(os.urandom(100_000))
    used = client.get("/du")
    assert used["blobs"] >= 100_000
    assert used["runyard.db"] > 0


def test_gc_frees_what_nothing_names_and_keeps_the_rest(client):
    lost = client.put_blob(b"named by nothing " + os.urandom(8))
    kept = client.put_blob(b"named by a run " + os.urandom(8))
    run_id = client.interactive_run(f"gc-{client.workspace}")["id"]
    client.post(f"/runs/{run_id}/files", {"entries": [["outputs/x", kept, 23, 0o644]]})
    model = client.put_blob(b"named by a model " + os.urandom(8))
    client.post(f"{client.here}/assets/models", {"name": "m", "body": {"files": [["m", model, 25, 0o644]]}})
    assert client.post("/gc", {"older_than_seconds": 3600})["blobs"] == {"count": 0, "bytes": 0}
    assert client.post("/gc", {"older_than_seconds": 0})["blobs"]["count"] >= 1
    assert client.post("/blobs/missing", {"sha256": [lost, kept, model]}) == {"missing": [lost]}


def test_gc_removes_the_folders_of_attempts_that_have_ended(client: WireClient, service):
    ended = client.interactive_run(f"gc-ended-{client.workspace}")["id"]
    going_on = client.interactive_run(f"gc-open-{client.workspace}")["id"]
    client.patch(f"/runs/{ended}", {"status": "Completed"})
    attempts = Path(service["home"], "attempts")
    for run_id in (ended, going_on, "nobody"):
        (attempts / f"{run_id}.1" / "work").mkdir(parents=True)
        (attempts / f"{run_id}.1" / "work" / "big").write_bytes(bytes(10_000))
    freed = client.post("/gc", {"older_than_seconds": 0})["attempts"]
    assert freed["count"] >= 2
    assert freed["bytes"] >= 20_000
    assert (attempts / f"{going_on}.1").is_dir()
    assert not (attempts / f"{ended}.1").exists()


def test_gc_removes_environments_and_fetched_data_not_used_since(client: WireClient, service):
    home = Path(service["home"])
    environment, fetched = home / "environments" / "0123456789", home / "data-cache" / "9876543210"
    for folder in (environment, fetched):
        folder.mkdir(parents=True)
        (folder / "content").write_bytes(bytes(10_000))
    (environment / ".ready").write_text(json.dumps({"lock": "numpy==1.0\n", "version": "3.11.1"}))
    (fetched / "facts.json").write_text(json.dumps({"url": "http://example.org/x"}))
    young = client.post("/gc", {"older_than_seconds": 3600})
    assert young["environments"]["count"] == young["data-cache"]["count"] == 0
    freed = client.post("/gc", {"older_than_seconds": 0})
    for part, folder in (("environments", environment), ("data-cache", fetched)):
        assert freed[part]["count"] >= 1  # tests before this one may have left more
        assert freed[part]["bytes"] >= 10_000
        assert not folder.exists()


def test_an_age_that_is_no_number_is_refused(client):
    for age in ("1", -1, None, True, 1e300):
        assert client.refusal("POST", "/gc", {"older_than_seconds": age})["code"] == "invalid_argument"
