"""Which files of this machine the service takes by their paths, and for whom."""

import hashlib
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.attempts import node_of, script_of
from tests.wire_client import PREFIX, WireClient

SECRET = b"a file of another workspace"


@pytest.fixture
def attempts(service) -> Path:
    return Path(service["home"], "attempts")


@pytest.fixture
def own(client: WireClient, attempts: Path) -> Path:
    """The attempt's folder of the run `adopts-SPACE`, with a plan, work/file and uploads/file."""
    return _attempt(client, attempts, f"adopts-{client.workspace}")


@pytest.fixture
def foreign(client: WireClient, attempts: Path) -> Path:
    """That of a run in another workspace."""
    other = WireClient(client.url, client.token, workspace=f"{client.workspace}-other")
    other.put(other.here, {"exist_ok": True})
    folder = _attempt(other, attempts, f"foreign-{client.workspace}")
    (folder / "work" / "file").write_bytes(SECRET)
    return folder


@pytest.fixture
def script(client: WireClient, own: Path) -> WireClient:
    return script_of(client, f"adopts-{client.workspace}")


def _attempt(client: WireClient, attempts: Path, run_id: str) -> Path:
    client.interactive_run(run_id)
    folder = attempts / f"{run_id}.1"
    for name in ("work", "uploads", "data", "std", "journals"):
        (folder / name).mkdir(parents=True)
        (folder / name / "file").write_bytes(f"{name} of {run_id}".encode())
    (folder / "plan.json").write_text('{"token": "secret"}')
    return folder


def ways(script: WireClient, run_id: str, path: Path) -> dict[str, tuple[str, dict]]:
    """Each adopt route, asked for that file."""
    store = f"{PREFIX}{script.here}/datastores/workspaceblobstore"
    return {
        "blobs": (f"{PREFIX}/blobs/adopt", {"paths": [str(path)]}),
        "datastore": (f"{store}/adopt", {"items": [[str(path), f"taken-{path.name}"]]}),
        "files": (f"{PREFIX}/runs/{run_id}/files/adopt", {"root": str(path.parent), "paths": [path.name]}),
    }


def taken(asker: WireClient, run_id: str, path: Path) -> list[str]:
    """The routes that took the file."""
    found = []
    for name, (address, body) in ways(asker, run_id, path).items():
        answer = asker.ask("POST", address, body)
        assert answer.status in (200, 400, 403, 404), (name, answer.body)
        if answer.status == 200 and answer.json.get("entries", True):
            found.append(name)
    return found


def test_a_script_adopts_from_the_folders_it_writes_to(client, script, own):
    for name in ("work", "uploads", "data"):
        assert taken(script, f"adopts-{client.workspace}", own / name / "file") == ["blobs", "datastore", "files"], name
    stored = client.read(f"{client.here}/datastores/workspaceblobstore/files/taken-file")
    assert stored == f"work of adopts-{client.workspace}".encode()


@pytest.mark.parametrize("name", ["plan.json", "std/file", "journals/file", "work/../plan.json"])
def test_a_script_adopts_no_private_file_of_its_own_attempt(client, script, own, name):
    assert taken(script, f"adopts-{client.workspace}", own / name) == []


@pytest.mark.parametrize("name", ["plan.json", "work/file"])
def test_a_script_adopts_nothing_of_another_attempt(client, script, foreign, name):
    assert taken(script, f"adopts-{client.workspace}", foreign / name) == []


def test_a_script_adopts_nothing_from_elsewhere(client, script, service, tmp_path):
    (tmp_path / "file").write_bytes(SECRET)
    for path in (tmp_path / "file", Path(service["home"], "service.json"), Path("/etc/hostname")):
        assert taken(script, f"adopts-{client.workspace}", path) == []


def test_links_lead_a_script_nowhere_else(client, script, own, foreign):
    (own / "work" / "file-link").symlink_to(foreign / "work" / "file")
    (own / "work" / "plan-link").symlink_to("../plan.json")
    (own / "work" / "folder").symlink_to(foreign / "work")
    os.link(foreign / "work" / "file", own / "work" / "hard")
    run_id = f"adopts-{client.workspace}"
    assert taken(script, run_id, own / "work" / "file-link") == []
    assert taken(script, run_id, own / "work" / "plan-link") == []
    assert taken(script, run_id, own / "work" / "folder" / "file") == []
    assert "blobs" not in taken(script, run_id, own / "work" / "hard")
    assert "datastore" not in taken(script, run_id, own / "work" / "hard")


def test_a_folder_of_the_attempt_that_became_a_link_leads_nowhere_else(client, script, own, foreign):
    (own / "work").rename(own / "was-work")
    (own / "work").symlink_to(foreign / "work")
    assert taken(script, f"adopts-{client.workspace}", own / "work" / "file") == []
    assert (
        taken(node_of(client, f"adopts-{client.workspace}"), f"adopts-{client.workspace}", own / "work" / "file") == []
    )


def test_a_folder_that_is_swapped_for_a_link_meanwhile_leads_nowhere_else(client, script, own, foreign):
    run_id, folder = f"adopts-{client.workspace}", own / "work" / "swapped"
    (own / "work" / "good").mkdir()
    (own / "work" / "good" / "file").write_bytes(b"good")
    folder.symlink_to(own / "work" / "good")
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            for target in (foreign / "work", own / "work" / "good"):
                beside = own / "work" / "beside"
                beside.symlink_to(target)
                beside.rename(folder)

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        for _ in range(60):
            for address, body in ways(script, run_id, folder / "file").values():
                answer = script.ask("POST", address, body)
                assert hashlib.sha256(SECRET).hexdigest().encode() not in answer.body
    finally:
        over.set()
        swapping.join()
    stored = client.ask("GET", f"{PREFIX}{client.here}/datastores/workspaceblobstore/files/taken-file")
    assert stored.body != SECRET


def test_a_node_adopts_for_its_run_alone(client, own, foreign):
    run_id = f"adopts-{client.workspace}"
    node = node_of(client, run_id)
    assert taken(node, run_id, own / "work" / "file") == ["files"]
    assert taken(node, run_id, own / "plan.json") == []
    assert taken(node, run_id, foreign / "work" / "file") == []


def test_the_owner_adopts_any_file_of_this_machine(client, own, tmp_path):
    (tmp_path / "file").write_bytes(b"owner's")
    (tmp_path / "link").symlink_to("file")
    assert taken(client, f"adopts-{client.workspace}", tmp_path / "file") == ["blobs", "datastore", "files"]
    assert taken(client, f"adopts-{client.workspace}", tmp_path / "link") == ["blobs", "datastore", "files"]


def test_a_script_sends_the_bytes_of_files_that_are_not_taken_by_path(client, script, own, tmp_path):
    (tmp_path / "file").write_bytes(b"from elsewhere")
    facts = {"RUNYARD_URL": client.url, "RUNYARD_TOKEN": script.token, "RUNYARD_ATTEMPT": own.name}
    program = "import sys; from runyard_sdk.client import Client; print(Client().send_files(sys.argv[1:]))"
    paths = [str(tmp_path / "file"), str(own / "work" / "file")]
    done = subprocess.run(
        [sys.executable, "-c", program, *paths], env={**os.environ, **facts}, capture_output=True, text=True, timeout=60
    )
    expected = [[hashlib.sha256(Path(path).read_bytes()).hexdigest(), Path(path).stat().st_size] for path in paths]
    assert (done.stdout.strip(), done.stderr) == (str(expected), "")
    assert client.read(f"/blobs/{expected[0][0]}") == b"from elsewhere"


def test_a_path_that_is_too_long_for_the_system_holds_nothing(client):
    run_id = client.interactive_run(f"long-{client.workspace}")["id"]
    taken = client.post(f"/runs/{run_id}/files/adopt", {"root": "/" + "a" * 5000, "paths": ["file"]})
    assert taken == {"entries": []}
