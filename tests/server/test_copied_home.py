"""A copy of a home is a home of its own, and has no power over the original."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from runyard.client import service_address
from runyard.compute.local.kind import LocalEngine
from runyard.node.home_socket import ask_agent
from runyard.server.lifecycle import service_status, start_service, stop_service
from runyard.server.lifecycle.control import stop_web_services
from runyard.server.lifecycle.home_copy import find_original
from runyard_sdk.discovery import locate, running
from tests.conftest import end_home
from tests.wire_client import WireClient

pytestmark = pytest.mark.slow


@pytest.fixture
def original(home: Path):
    """A home that is served, with a run that has not ended."""
    client = client_of(start_service(home, keep=True))
    client.put("/workspaces/default", {"exist_ok": True})
    client.interactive_run("going-on")
    client.interactive_run("done")
    client.patch("/runs/done", {"status": "Completed"})
    return home


@pytest.fixture
def copy(original: Path, tmp_path: Path):
    """Made by cp while the original's service ran."""
    target = tmp_path / "copy"
    subprocess.run(["cp", "-a", str(original), str(target)], check=True)
    part = target / "attempts" / "going-on.1"
    part.mkdir(parents=True)
    (part / "plan.json").write_text("{}")
    (part / "supervisor.json").write_text(json.dumps({"pid": os.getpid(), "started": 0}))
    (target / "services" / "web").mkdir(parents=True)
    (target / "services" / "web" / "state.json").write_text('{"port": 12345, "state": "Healthy"}')
    yield target
    end_home(target)


def client_of(facts) -> WireClient:
    return WireClient(facts["url"], facts["token"], workspace="default")


def test_status_and_down_of_a_copy_leave_the_original_alone(original: Path, copy: Path, monkeypatch) -> None:
    facts = service_status(original)
    assert facts is not None
    monkeypatch.setenv("RUNYARD_HOME", str(copy))
    assert service_status(copy) is None
    assert running() is None
    assert not stop_service(copy)
    assert stop_web_services(copy) == 0
    with pytest.raises(ValueError, match="another home"):
        service_address(copy)
    assert service_status(original) == facts


def test_a_service_file_of_an_earlier_version_does_not_lead_to_the_original(original: Path, copy: Path) -> None:
    facts = json.loads((copy / "service.json").read_text())
    del facts["home"], facts["home_id"]
    (copy / "service.json").write_text(json.dumps(facts))
    assert service_status(copy) is None
    (original / "service.json").write_text(json.dumps(facts))
    assert service_status(original) is not None


def test_sockets_of_a_copy_made_of_hard_links_do_not_lead_to_the_original(original: Path, copy: Path) -> None:
    LocalEngine(original).warm()
    pid = ask_agent(original, {"op": "status"})["pid"]
    (copy / "agent.sock").unlink(missing_ok=True)
    os.link(original / "agent.sock", copy / "agent.sock")
    with pytest.raises(OSError, match="another home"):
        ask_agent(copy, {"op": "exit"})
    assert ask_agent(original, {"op": "status"})["pid"] == pid


def test_a_copy_is_served_as_a_home_of_its_own(original: Path, copy: Path, monkeypatch) -> None:
    before = service_status(original)
    monkeypatch.setenv("RUNYARD_HOME", str(copy))
    locate()  # as the SDK starts a service
    facts = service_status(copy)
    assert facts is not None
    assert before is not None
    assert facts["pid"] != before["pid"]
    assert service_status(original) == before
    there, here = client_of(before), client_of(facts)
    assert there.get("/runs/going-on")["status"] == "Running"
    ended = here.get("/runs/going-on")
    assert ended["status"] == "Failed"
    assert str(original) in ended["error"]["error"]["message"]
    assert here.get("/runs/done")["status"] == "Completed"
    assert not (copy / "attempts" / "going-on.1").exists()
    assert json.loads((copy / "services" / "web" / "state.json").read_text())["port"] == 0
    here.interactive_run("of-the-copy")
    assert stop_service(copy)
    assert client_of(start_service(copy, keep=True)).get("/runs/of-the-copy")["status"] == "Running"


def test_a_home_that_was_moved_is_the_home_it_was(original: Path, tmp_path: Path) -> None:
    stop_service(original)
    moved = tmp_path / "moved"
    original.rename(moved)
    original.mkdir()
    assert find_original(moved) is None
    client = client_of(start_service(moved, keep=True))
    try:
        assert client.get("/runs/going-on")["status"] == "Running"
        assert json.loads((moved / "home.json").read_text())["path"] == str(moved)
    finally:
        end_home(moved)
