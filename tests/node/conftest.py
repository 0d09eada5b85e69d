import contextlib
import hashlib
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from runyard.compute.local.kind import LocalEngine
from runyard.core.ports.engine import ticket_for
from runyard.core.records.files import FileEntry
from runyard.core.records.launch_plan import EnvironmentSpec, LaunchPlan, NodePlan, ProcessSpec
from runyard.core.records.runs import AttemptId, RunId
from runyard.node.home_socket import ask_agent
from runyard.node.processes.procfs import processes_with_variable
from runyard.node.task_folder import list_task_folders
from tests.needs import interpreter
from tests.node.recording_service import RecordingService


@pytest.fixture
def home(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    yield home
    with contextlib.suppress(OSError):
        ask_agent(home, {"op": "exit"})
    for folder in list_task_folders(home):
        supervisor = folder.supervisor()
        for process in {*processes_with_variable("RUNYARD_PART", folder.part, home=home), *filter(None, [supervisor])}:
            process.send(signal.SIGKILL)


@pytest.fixture(scope="session")
def interpreter_of() -> Callable[[str], str]:
    """The path of this machine's Python of that version."""
    return lambda version: str(interpreter(version))


@pytest.fixture
def service(home):
    service = RecordingService(home)
    service.start()
    yield service
    service.stop()


@pytest.fixture
def engine(home):
    return LocalEngine(home)


@pytest.fixture
def submit(engine, service):
    """Run this script text as an attempt; returns its ticket."""

    def submit(script: str, *arguments: str, attempt_id: str = "run1.1", **fields):
        return engine.submit(a_plan(service, script, *arguments, attempt_id=attempt_id, **fields))

    return submit


def a_plan(service: RecordingService, script: str, *arguments: str, attempt_id: str = "run1.1", **fields) -> LaunchPlan:
    content = script.encode()
    sha256 = hashlib.sha256(content).hexdigest()
    service.blobs[sha256] = content
    process = ProcessSpec(0, ("{python}", "train.py", *arguments), {}, "azureml-logs/70_driver_log.txt")
    plan = {
        "attempt_id": AttemptId(attempt_id),
        "run_id": RunId(attempt_id.rpartition(".")[0]),
        "kind": "run",
        "environment": EnvironmentSpec(python=sys.executable, user_managed=True),
        "nodes": (NodePlan("127.0.0.1", (process,)),),
        "code": (FileEntry("train.py", sha256, len(content)),),
        "env": {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "PYTHONUNBUFFERED": "1"},
        "cancel_grace_seconds": 0.5,
    }
    return LaunchPlan(**{**plan, **fields})


@pytest.fixture
def submit_to_nodes(engine, service):
    """Run this script text on several nodes, each given as its processes; returns the ticket.

    With `never_come`, the service waits for that many nodes more.
    """

    def submit(script: str, *nodes: list[ProcessSpec], ports=(), never_come: int = 0, **fields):
        plan = a_plan(service, script, **fields)
        name = [f"cluster-{node}" for node in range(len(nodes))]
        places = [
            NodePlan(f"127.0.9.{node + 1}", tuple(processes), name=name[node], ports=ports[node] if ports else ())
            for node, processes in enumerate(nodes)
        ]

        def stop(attempt_id: str, end_as: str) -> None:
            engine.cancel(ticket_for(attempt_id, len(nodes)), grace=timedelta(seconds=3), end_as=end_as)

        service.gather(plan.attempt_id, len(nodes) + never_come, stop)
        return engine.submit(replace(plan, nodes=tuple(places)))

    return submit


def a_rank(rank: int, *arguments: str, role: str = "worker", **env: str) -> ProcessSpec:
    command = ("{python}", "train.py", *arguments)
    return ProcessSpec(rank, command, env, f"azureml-logs/70_driver_log_{rank}.txt", role)


def rank_log(service: RecordingService, rank: int) -> str:
    return service.logs.get(f"azureml-logs/70_driver_log_{rank}.txt", b"").decode("utf-8", "replace")


def driver_log(service: RecordingService) -> str:
    return service.logs.get("azureml-logs/70_driver_log.txt", b"").decode("utf-8", "replace")


def pid_from(service: RecordingService, name: str, log: Callable[[], str] | None = None) -> int:
    """A pid that the script printed as `name=PID`, to the driver log or to another."""
    read = log or (lambda: driver_log(service))

    def find() -> int | None:
        for line in read().splitlines():
            if line.startswith(f"{name}="):
                return int(line.partition("=")[2])
        return None

    return service.wait_for(find)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
