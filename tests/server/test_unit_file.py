"""The unit file of the page for servers, started and restarted as systemd does."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runyard.node.task_folder import TaskFolder
from runyard.server.lifecycle import service_status
from tests.faults.yard import ENDED, eventually
from tests.servers import unit_manager
from tests.servers.certificates import make_certificate
from tests.wire_client import WireClient

pytestmark = pytest.mark.slow

UNIT_FILE = Path(__file__).parents[2] / "examples" / "server" / "runyard.service"
DEFAULT_KILL_MODE = "control-group"
POINTS = 200
SCRIPT = f"""
import os, time
from azureml.core import Run
run = Run.get_context()
for number in range({POINTS}):
    run.log("before", number)
print("begun", flush=True)
while not os.path.exists("go"):
    time.sleep(0.05)
for number in range({POINTS}):
    run.log("after", number)
print("all of it")
"""
SUBMIT = """
from azureml.core import Environment, Experiment, ScriptRunConfig, Workspace
here = Environment("here")
here.python.user_managed_dependencies = True
workspace = Workspace.create(name="unit", exist_ok=True)
print(Experiment(workspace, "unit").submit(ScriptRunConfig("source", "train.py", environment=here)).id)
"""


def settings_of(unit: str) -> dict[str, str]:
    """The last value of each setting."""
    lines = [line.partition("=") for line in unit.splitlines() if "=" in line and not line.startswith("#")]
    return {name.strip(): value.strip() for name, _, value in lines}


class Manager:
    """The unit in a process of its own, with its state below a folder."""

    def __init__(self, folder: Path) -> None:
        self._settings = settings_of(UNIT_FILE.read_text(encoding="utf-8"))
        self.home = folder / self._settings["StateDirectory"]
        self.home.mkdir(mode=int(self._settings["StateDirectoryMode"], 8))
        certificate = make_certificate(folder / "tls")
        places = {
            "/opt/runyard/bin/runyard": str(Path(sys.executable).with_name("runyard")),
            "/etc/runyard/service.crt": str(certificate.chain),
            "/etc/runyard/service.key": str(certificate.key),
            "0.0.0.0:8443": "127.0.0.1:0",
        }
        self._command = [places.get(word, word) for word in shlex.split(self._settings["ExecStart"])]
        name, _, value = self._settings["Environment"].partition("=")
        self.variables = {**os.environ, name: value.replace("%S", str(folder))}
        self._process = subprocess.Popen(
            [sys.executable, unit_manager.__file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def start(self) -> dict[str, Any]:
        self._ask("start", command=self._command, variables=self.variables, umask=int(self._settings["UMask"], 8))
        return eventually(lambda: service_status(self.home), "the service")

    def restart(self, kill_mode: str | None = None) -> dict[str, Any]:
        mode = kill_mode or self._settings.get("KillMode", DEFAULT_KILL_MODE)
        assert self._ask("stop", kill_mode=mode, seconds=float(self._settings["TimeoutStopSec"]))["code"] == 0
        return self.start()

    def processes(self) -> set[int]:
        return set(self._ask("processes")["processes"])

    def close(self) -> None:
        self._process.communicate(timeout=60)

    def _ask(self, op: str, **given: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"op": op, **given}) + "\n")
        self._process.stdin.flush()
        return dict(json.loads(self._process.stdout.readline()))


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    opened = Manager(tmp_path)
    yield opened
    opened.close()


def client_of(facts: dict[str, Any]) -> WireClient:
    return WireClient(facts["url"], facts["token"])


def submitted(manager: Manager, folder: Path) -> str:
    """A run whose script has begun, and ends once there is a file `go` in its folder."""
    (folder / "source").mkdir()
    (folder / "source" / "train.py").write_text(SCRIPT, encoding="utf-8")
    made = subprocess.run(
        [sys.executable, "-c", SUBMIT], cwd=folder, env=manager.variables, capture_output=True, text=True, timeout=120
    )
    assert made.returncode == 0, made.stderr
    run_id = made.stdout.split()[-1]
    std = TaskFolder(manager.home, f"{run_id}.1").std
    eventually(lambda: any(b"begun" in file.read_bytes() for file in std.glob("*")), "the script's first line")
    return run_id


def end_of(facts: dict[str, Any], run_id: str) -> dict[str, Any]:
    def record() -> dict[str, Any] | None:
        found = client_of(facts).get(f"/runs/{run_id}")
        return found if found["status"] in ENDED else None

    return eventually(record, f"the end of {run_id}")


def is_open_to_others(path: Path) -> bool:
    return not path.is_symlink() and bool(path.stat().st_mode & 0o077)


def let_go(manager: Manager, run_id: str) -> None:
    (TaskFolder(manager.home, f"{run_id}.1").work / "go").touch()


def test_a_restart_of_the_unit_ends_no_run(manager, tmp_path):
    first = manager.start()
    assert [path.name for path in manager.home.rglob("*") if is_open_to_others(path)] == []
    run_id = submitted(manager, tmp_path)
    before = manager.processes()
    second = manager.restart()
    assert second["pid"] != first["pid"]
    assert before - manager.processes() == {first["pid"]}, "nothing but the main process has ended"
    let_go(manager, run_id)
    assert end_of(second, run_id)["status"] == "Completed"
    log = client_of(second).read(f"/runs/{run_id}/logs/azureml-logs/70_driver_log.txt")
    assert log.decode().split("\n")[-2:] == ["all of it", ""]
    head = client_of(second).read(f"/runs/{run_id}/metrics").partition(b"\n")[0]
    assert {one["name"]: one["count"] for one in json.loads(head)["metrics"]} == {"before": POINTS, "after": POINTS}


def test_a_unit_without_a_kill_mode_would_end_the_runs(manager, tmp_path):
    manager.start()
    run_id = submitted(manager, tmp_path)
    facts = manager.restart(DEFAULT_KILL_MODE)
    assert end_of(facts, run_id)["status"] == "Failed"
