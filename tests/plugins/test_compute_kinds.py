"""A compute kind of under 150 lines, plugged in by an entry point, runs scripts without any change in the package.

Its cluster has a queue of its own: runs are handed over at once, and observed in one question.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runyard.compute.registry import GROUP
from tests.conftest import end_home
from tests.plugins.installing import install, start_with

pytestmark = pytest.mark.slow

TOY = Path(__file__).with_name("toy_compute.py")
OWN_PYTHON = {"python": {"userManagedDependencies": True, "interpreterPath": sys.executable}}
SECONDS = 60.0
MANY = 50


class ToyYard:
    """A service with the toy kind installed, and a toy cluster attached as "toy"."""

    def __init__(self, folder: Path) -> None:
        self.home, self.folder, self.packages = folder / "home", folder / "cluster", folder / "packages"
        install(self.packages, "toy", GROUP, "toy = toy_compute:KIND\nbroken = no_such_module:KIND", TOY)
        self.folder.mkdir()
        self.slots(0)
        self.cluster = subprocess.Popen([sys.executable, str(TOY), str(self.folder)])
        try:
            soon(lambda: (self.folder / "node" / "agent.json").exists())
            self.open()
            self.client.put(self.client.here, {"exist_ok": True})
            self.client.post(f"{self.client.here}/assets/computes", {"name": "toy", "body": self.body})
        except BaseException:
            self.close()
            raise

    @property
    def body(self) -> dict[str, Any]:
        settings = {"folder": str(self.folder)}
        return {"type": "Toy", "engine": "toy", "settings": settings, "is_attached": True, "max_nodes": 1}

    def open(self, packages: Path | None = None) -> None:
        self.service, self.client = start_with(packages or self.packages, self.home)

    def kill(self) -> None:
        self.service.kill()
        self.service.wait()

    def slots(self, number: int) -> None:
        beside = self.folder / ".slots"
        beside.write_text(str(number))
        beside.rename(self.folder / "slots")

    def submit(self, run_id: str, command: str = "echo hello from toy", target: str = "toy") -> None:
        definition = {"target": target, "command": command, "environment": OWN_PYTHON}
        self.client.post(f"{self.client.here}/experiments/e/runs", {"run_id": run_id, "definition": definition})

    def run(self, run_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.client.get(f"/runs/{run_id}")
        return found

    def ended(self, run_id: str) -> dict[str, Any]:
        self.client.get(f"/runs/{run_id}/wait?ended=1&timeout=60")
        return self.run(run_id)

    def calls(self, name: str) -> list[list[str]]:
        lines = (self.folder / "calls").read_text().splitlines() if (self.folder / "calls").exists() else []
        return [words[1:] for line in lines if (words := line.split())[0] == name]

    def command(self, *words: str) -> str:
        variables = {**os.environ, "RUNYARD_HOME": str(self.home), "PYTHONPATH": str(self.packages)}
        command = [str(Path(sys.executable).with_name("runyard")), *words]
        done = subprocess.run(command, capture_output=True, text=True, env=variables, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def queued(self) -> set[str]:
        return set(os.listdir(self.folder / "queued"))

    def close(self) -> None:
        self.cluster.kill()
        self.cluster.wait()
        end_home(self.home)
        self.service.wait()
        end_home(self.folder / "node")


def soon(is_so: Callable[[], Any]) -> Any:
    ends_at = time.monotonic() + SECONDS
    while not (found := is_so()):
        assert time.monotonic() < ends_at
        time.sleep(0.02)
    return found


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToyYard]:
    opened = ToyYard(tmp_path_factory.mktemp("toy"))
    yield opened
    opened.close()


@pytest.fixture
def toy(yard: ToyYard) -> ToyYard:
    """With nothing queued, and nothing started until the test says so. Starting a service takes seconds."""
    yard.slots(0)
    (yard.folder / "calls").unlink(missing_ok=True)
    assert yard.queued() == set()
    return yard


def test_the_toy_is_small() -> None:
    assert len(TOY.read_text(encoding="utf-8").splitlines()) < 150


def test_a_script_runs_on_a_kind_from_another_package(toy: ToyYard) -> None:
    toy.slots(1)
    toy.submit("hello")
    run = toy.ended("hello")
    assert run["status"] == "Completed"
    assert run["job_id"].startswith("toy-")
    assert b"hello from toy" in toy.client.read("/runs/hello/logs/azureml-logs/70_driver_log.txt")
    refused = toy.client.refusal(
        "POST",
        f"{toy.client.here}/assets/computes",
        {"name": "other", "body": {**toy.body, "settings": {"folder": "cluster"}}},
    )
    assert refused["problem"] == "folder must be an absolute path, got 'cluster'."


def test_the_command_line_knows_kinds_from_other_packages(toy: ToyYard) -> None:
    rows = {line.split()[0]: line for line in toy.command("compute", "kinds").splitlines()}
    assert "has a queue of its own" in rows["toy"]
    assert "left out" in rows["broken"]
    assert "no_such_module" in rows["broken"]
    assert "compute broken" in toy.command("doctor")
    attached = toy.command("compute", "attach", "toy", "again", "--folder", str(toy.folder), "-w", "space")
    assert attached == f"again: Toy in {toy.folder}, at most 64 nodes for all its runs\n"
    assert f"folder      {toy.folder}" in toy.command("compute", "show", "again", "-w", "space")
    toy.slots(1)
    toy.submit("through-again", target="again")
    assert toy.ended("through-again")["status"] == "Completed"


def test_all_runs_are_handed_over_at_once_and_asked_for_in_one_question(toy: ToyYard) -> None:
    """The service is killed while they are in the cluster's queue, and finds them again by their job ids."""
    names = [f"many-{number}" for number in range(MANY)]
    for name in names:
        toy.submit(name)
    soon(lambda: toy.queued() == {f"{name}.1" for name in names})
    soon(lambda: all(toy.run(name)["job_id"] for name in (names[0], names[-1])))
    assert {toy.run(name)["status"] for name in names} == {"Queued"}
    soon(lambda: "50 jobs are queued" in toy.run(names[-1])["message"])
    soon(lambda: len([asked for asked in toy.calls("observe") if len(asked) == MANY]) > 1)
    questions = [len(asked) for asked in toy.calls("observe")]
    assert set(questions[questions.index(MANY) :]) == {MANY}

    toy.client.post(f"/runs/{names[7]}/cancel")
    assert toy.ended(names[7])["status"] == "Canceled"
    assert f"{names[7]}.1" not in toy.queued()

    toy.kill()
    before = len(toy.calls("observe"))
    toy.open()
    jobs = {toy.run(name)["job_id"] for name in names} - {toy.run(names[7])["job_id"]}
    soon(lambda: any(set(asked) == jobs for asked in toy.calls("observe")[before:]))
    assert len(toy.queued()) == MANY - 1
    assert len(toy.calls("submit")) == MANY

    toy.slots(8)
    ends = {name: toy.ended(name)["status"] for name in names}
    assert {name for name, status in ends.items() if status != "Completed"} == {names[7]}
    assert {toy.run(name)["attempt"] for name in names} == {1}


def test_what_was_not_handed_over_when_the_service_died_is_handed_over_again(toy: ToyYard) -> None:
    toy.submit("lost")
    soon(lambda: toy.queued() == {"lost.1"})
    toy.kill()
    (toy.folder / "queued" / "lost.1").unlink()  # as if it had died before it submitted the job
    toy.open()
    soon(lambda: toy.queued() == {"lost.1"})
    toy.slots(1)
    assert toy.ended("lost")["status"] == "Completed"
    assert toy.run("lost")["attempt"] == 1


def test_a_job_that_somebody_else_removes_fails_its_run(toy: ToyYard) -> None:
    toy.submit("removed")
    soon(lambda: toy.queued() == {"removed.1"})
    (toy.folder / "queued" / "removed.1").rename(toy.folder / "removed" / "removed.1")
    run = toy.ended("removed")
    assert run["status"] == "Failed"
    assert "The job was removed from the queue." in run["error"]["error"]["message"]


def test_a_running_job_is_canceled_on_its_node(toy: ToyYard) -> None:
    toy.slots(1)
    toy.submit("long", "sleep 600")
    soon(lambda: toy.run("long")["status"] == "Running")
    toy.client.post("/runs/long/cancel")
    assert toy.ended("long")["status"] == "Canceled"


def test_runs_wait_while_their_kind_is_missing(toy: ToyYard, tmp_path: Path) -> None:
    toy.submit("waits")
    soon(lambda: toy.queued() == {"waits.1"})
    toy.kill()
    toy.open(packages=tmp_path)
    soon(lambda: "There is no compute kind 'toy'" in toy.run("waits")["message"])
    status = toy.client.get(f"{toy.client.here}/computes/toy/status")
    assert "There is no compute kind 'toy'" in status["errors"][0]
    toy.kill()
    toy.open()
    toy.slots(1)
    assert toy.ended("waits")["status"] == "Completed"
