"""Two services on one PostgreSQL: one writes, the other stands by and takes over."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from runyard.server.lifecycle import service_status, start_service, stop_service
from tests.faults.yard import Yard, eventually, is_alive
from tests.storage.conformance.conftest import _empty, postgres_url
from tests.wire_client import PREFIX, WireClient

__all__ = ["postgres_url"]
pytestmark = pytest.mark.servers
SECONDS = 60


class Pair:
    """Two homes, each with a service on the same database."""

    def __init__(self, folder: Path) -> None:
        self.first, self.second = folder / "first", folder / "second"
        self.started: list[int] = []

    def start(self, home: Path) -> dict[str, Any]:
        facts = start_service(home, keep=True)
        self.started.append(int(facts["pid"]))
        return facts

    def client(self, home: Path) -> WireClient:
        facts = json.loads((home / "service.json").read_text())
        return WireClient(facts["url"], facts["token"], workspace="lease")

    def takes_over(self, home: Path) -> WireClient:
        """Once it does."""
        eventually(lambda: "stands_by" not in (service_status(home) or {"stands_by": ""}), "a takeover", SECONDS)
        return self.client(home)

    def close(self) -> None:
        agents = [home / "agent.json" for home in (self.first, self.second)]
        self.started += [json.loads(file.read_text())["pid"] for file in agents if file.exists()]
        for pid in self.started:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
                os.kill(pid, signal.SIGKILL)


SCRIPT = """
import os, sys, time
from azureml.core import Run

run = Run.get_context()
number = 0
while not os.path.exists(sys.argv[1]):
    run.log("point", number)
    number += 1
    time.sleep(0.05)
run.log("count", number)
"""


@pytest.fixture
def pair(tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    _empty(postgres_url)
    monkeypatch.setenv("RUNYARD_DATABASE_URL", postgres_url)
    made = Pair(tmp_path)
    yield made
    for home in (made.first, made.second):
        stop_service(home)
    made.close()


def test_the_second_service_stands_by_and_says_who_holds_the_database(pair: Pair) -> None:
    holder, standby = pair.start(pair.first), pair.start(pair.second)
    assert f"process {holder['pid']} on " in standby["stands_by"]
    assert str(pair.first) in standby["stands_by"]
    health = pair.client(pair.second).get("/health")
    assert (health["pid"], health["stands_by"]) == (standby["pid"], standby["stands_by"])
    for method, path in (("PUT", "/workspaces/lease"), ("GET", "/workspaces"), ("POST", "/gc")):
        refused = pair.client(pair.second).refusal(method, path, {})
        assert (refused["status"], refused["code"]) == (503, "standing_by")
        assert standby["stands_by"] in refused["problem"]
    assert pair.client(pair.second).ask("GET", f"{PREFIX}/health", authorization="").status == 401
    assert pair.client(pair.second).ask("GET", "/healthz", authorization="").json == {"status": "ok"}
    probed = pair.client(pair.second).ask("GET", "/readyz", authorization="")
    assert (probed.status, probed.json) == (503, {"status": "not ready", "reason": "standing by"})
    assert pair.client(pair.first).ask("GET", "/readyz", authorization="").status == 200
    shown = subprocess.run(
        [Path(sys.executable).with_name("runyard"), "status"],
        env={**os.environ, "RUNYARD_HOME": str(pair.second)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "holds the database" in shown.stdout
    pair.client(pair.first).put("/workspaces/lease", {"exist_ok": True})
    assert stop_service(pair.second)
    assert service_status(pair.second) is None


def test_a_clean_stop_hands_the_database_over_at_once(pair: Pair) -> None:
    pair.start(pair.first)
    pair.client(pair.first).put("/workspaces/lease", {"exist_ok": True})
    pair.start(pair.second)
    assert stop_service(pair.first)
    assert pair.takes_over(pair.second).get("/workspaces/lease")["name"] == "lease"
    again = pair.start(pair.first)
    assert str(pair.second) in again["stands_by"]


def test_a_killed_holder_is_followed(pair: Pair) -> None:
    holder = pair.start(pair.first)
    pair.client(pair.first).put("/workspaces/lease", {"exist_ok": True})
    pair.start(pair.second)
    os.kill(holder["pid"], signal.SIGKILL)
    client = pair.takes_over(pair.second)
    client.interactive_run("after-the-kill")
    assert client.get("/runs/after-the-kill")["status"] == "Running"


def test_a_killed_holder_that_is_restarted_does_not_wait(pair: Pair) -> None:
    holder = pair.start(pair.first)
    os.kill(holder["pid"], signal.SIGKILL)
    eventually(lambda: not is_alive(holder["pid"]), "its end", SECONDS)
    assert "stands_by" not in pair.start(pair.first)


def test_a_holder_that_was_stopped_writes_nothing_and_steps_down(pair: Pair) -> None:
    holder = pair.start(pair.first)
    before = pair.client(pair.first)
    before.put("/workspaces/lease", {"exist_ok": True})
    before.interactive_run("first")
    pair.start(pair.second)
    os.kill(holder["pid"], signal.SIGSTOP)
    after = pair.takes_over(pair.second)
    after.patch("/runs/first", {"tags": {"by": "second"}})
    os.kill(holder["pid"], signal.SIGCONT)
    with suppress(OSError):
        assert before.ask("PATCH", f"{PREFIX}/runs/first", {"tags": {"by": "first"}}).status >= 500
    eventually(lambda: not is_alive(holder["pid"]), "the first service's end", SECONDS)
    assert after.get("/runs/first")["tags"] == {"by": "second"}
    log = (pair.first / "service.log").read_text()
    assert "was taken over by process" in log
    assert str(pair.second) in log


def test_a_run_of_a_killed_holder_goes_on_until_its_service_is_back(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNYARD_HOME", str(pair.first))
    holder = pair.start(pair.first)
    (tmp_path / "sources").mkdir()
    run = Yard(tmp_path / "sources").submit(SCRIPT, arguments=(tmp_path / "enough",))
    eventually(lambda: "point" in run.get_metrics(), "a point", SECONDS)
    pair.start(pair.second)
    os.kill(holder["pid"], signal.SIGKILL)
    second = pair.takes_over(pair.second)
    eventually(lambda: str(pair.first) in second.get(f"/runs/{run.id}")["message"], "a look at the run", SECONDS)
    assert second.get(f"/runs/{run.id}")["status"] == "Running"
    assert "stands_by" in pair.start(pair.first)
    assert stop_service(pair.second)
    pair.takes_over(pair.first)
    (tmp_path / "enough").touch()
    run.wait_for_completion()
    metrics = run.get_metrics()
    assert metrics["point"] == list(range(metrics["count"]))
    details = run.get_details()
    assert (details["status"], details.get("error")) == ("Completed", None)
