"""Clients that wait for a run at a given address (RUNYARD_URL) while the service is killed or stopped."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from azureml.core import Experiment, Run, Workspace
from runyard.server.lifecycle import start_service
from tests.conftest import end_home
from tests.faults.yard import eventually, kill
from tests.sdk.yard import config

pytestmark = pytest.mark.slow

# An address that never answered is given up after 5 seconds. The poll must be older than that when it breaks.
POLLED_SECONDS = 6.0
WAIT_FOR_A_FILE = """
import pathlib, sys, time
print("begun", flush=True)
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.05)
print("done", flush=True)
"""
WAIT = """
from azureml.core import Run, Workspace
run = Run.get(Workspace.get("waiting"), {id!r})
print("waits", flush=True)
print(run.wait_for_completion(show_output={shows})["status"], flush=True)
"""
COMMAND = "import sys; sys.argv = ['runyard', *{arguments!r}]; from runyard.cli.main import main; main()"
SHORT_SILENCE = """
from azureml.core import _run_status
from runyard_sdk import transport
transport._SILENCE_SECONDS, _run_status._WAIT_SECONDS = 3, 1
"""


class Far:
    """A service that clients reach by its address."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.facts = start_service(home, keep=True)
        self.variables = {"RUNYARD_URL": self.facts["url"], "RUNYARD_TOKEN": self.facts["token"]}

    def restart(self) -> None:
        """Killed, and back on the same port."""
        kill(self.facts["pid"])
        url = self.facts["url"]
        self.facts = start_service(self.home, keep=True)
        assert self.facts["url"] == url


@pytest.fixture
def far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Far]:
    home = tmp_path / "home"
    started = Far(home)
    monkeypatch.setenv("RUNYARD_HOME", str(tmp_path / "other-home"))
    for name, value in started.variables.items():
        monkeypatch.setenv(name, value)
    try:
        yield started
    finally:
        with suppress(ProcessLookupError):
            os.kill(started.facts["pid"], signal.SIGCONT)
        end_home(home)


@pytest.fixture
def release(tmp_path: Path) -> Path:
    return tmp_path / "release"


@pytest.fixture
def run(far: Far, tmp_path: Path, release: Path) -> Run:
    workspace = Workspace.create("waiting")
    submitted = Experiment(workspace, "waiting").submit(config(tmp_path / "source", WAIT_FOR_A_FILE, str(release)))
    eventually(lambda: submitted.get_status() == "Running", "the run")
    return submitted


def test_a_restart_in_the_middle_of_a_long_poll_is_waited_out(far, run, release):
    waiting = {
        "wait": _python(WAIT.format(id=run.id, shows=False)),
        "stream": _python(WAIT.format(id=run.id, shows=True)),
        "runs wait": _python(COMMAND.format(arguments=["runs", "wait", run.id])),
        "runs logs": _python(COMMAND.format(arguments=["runs", "logs", "-f", run.id])),
    }
    begun = time.monotonic()
    eventually(lambda: time.monotonic() - begun > POLLED_SECONDS, "polls that are older than the patience")
    far.restart()
    release.touch()
    ends = {name: _ended(process) for name, process in waiting.items()}
    assert {name: code for name, (code, _, _) in ends.items()} == dict.fromkeys(waiting, 0), ends
    assert ends["wait"][1].split() == ["waits", "Completed"]
    assert ends["runs logs"][1].count("begun") == ends["runs logs"][1].count("done") == 1


def test_a_service_that_is_stopped_for_longer_than_the_sockets_timeout_is_waited_out(far, run, release, full):
    """With the real time-out of 120 s in `make faults`, else with one of 3 s."""
    before, stopped_seconds = ("", 130.0) if full else (SHORT_SILENCE, 5.0)
    waiting = [_python(before + WAIT.format(id=run.id, shows=shows)) for shows in (False, True)]
    for process in waiting:
        assert process.stdout is not None
        assert process.stdout.readline() == "waits\n"
    os.kill(far.facts["pid"], signal.SIGSTOP)
    stopped = time.monotonic()
    release.touch()
    eventually(lambda: time.monotonic() - stopped > stopped_seconds, "the end of the stop", 2 * stopped_seconds)
    os.kill(far.facts["pid"], signal.SIGCONT)
    for process in waiting:
        code, said, problem = _ended(process)
        assert (code, said.split()[-1:]) == (0, ["Completed"]), problem


def _python(script: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    )


def _ended(process: "subprocess.Popen[str]") -> tuple[Any, str, str]:
    try:
        said, problem = process.communicate(timeout=120)
    finally:
        process.kill()
    return process.returncode, said, problem
