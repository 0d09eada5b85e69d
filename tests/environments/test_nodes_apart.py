"""Nodes that share no files, each with a home of its own, and the real service between them."""

import json
import os
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from runyard.core.errors import EnvironmentFailed
from runyard.core.records.launch_plan import EnvironmentSpec, LaunchPlan, NodePlan
from runyard.core.records.runs import AttemptId, RunId
from runyard.environments.folder import environment_key
from runyard.environments.lockfile import LockFile
from runyard.environments.planning.source_builds import build_dependencies
from runyard.node.service_client import connect_to_service
from runyard.node.supervisor.preparation import ensure_environment
from runyard.node.task_folder import TaskFolder
from tests.attempts import node_of
from tests.environments.compilable import add_horovod, add_open_mpi
from tests.environments.wheelhouse import add_wheel

pytestmark = pytest.mark.slow

SPEC = EnvironmentSpec(requirements=("tensorflow==1.13.2", *build_dependencies(["horovod"])), builds=("horovod",))


@pytest.fixture
def node(client, service, tmp_path, variables, wheels):
    """Prepares the environment of a run's attempt on the named node; gives what was built, told and logged."""
    add_wheel(wheels, "tensorflow", "1.13.2")
    add_horovod(wheels)
    run_id = client.interactive_run(f"apart-{client.workspace}")["id"]
    token = node_of(client, run_id).token

    def prepare(name, spec=SPEC, *, kind="run", programs=("mpirun",), keeps_compiler=False, mpi="4.1.4"):
        home, tools = tmp_path / name, tmp_path / f"{name}-tools"
        home.mkdir(exist_ok=True)
        (home / "service.json").write_text(json.dumps({"url": service["url"]}))
        add_open_mpi(tools, mpi, programs=programs)
        path = f"{tools}{os.pathsep}{variables['PATH']}" if keeps_compiler else str(tools)
        plan = LaunchPlan(
            attempt_id=AttemptId(f"{run_id}.1"),
            run_id=RunId(run_id),
            kind=kind,
            environment=spec,
            nodes=(NodePlan("127.0.0.1", (), name=name),),
            env={**variables, "PATH": path, "UV_CACHE_DIR": str(home / "uv")},
            token=token,
            shares_files=False,
        )
        folder, told = TaskFolder(home, plan.part), []
        folder.make_room()
        with closing(connect_to_service(home, token)) as asking:
            built = ensure_environment(folder, plan, asking, told.append)
        logs = "".join(log.read_text() for log in folder.std.iterdir())
        return built, told, logs

    return prepare


def _against(python: Path) -> str:
    asked = [str(python), "-c", "import horovod; print(horovod.against())"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.needs("compiler")
def test_what_one_node_compiled_another_takes_from_the_service(node, wheels):
    first, told, log = node("first", kind="prepare", programs=("mpirun", "mpicxx"), keeps_compiler=True)
    assert told == [{"step": "environment"}]
    assert "Building horovod==0.16.1" in log
    add_wheel(wheels, "cffi", "2.0")  # a newer release, which the lock leaves alone
    second, _, log = node("second")
    assert "Another node has made this environment before" in log
    assert "horovod-0.16.1-py3-none-any.whl was compiled by another node" in log
    assert second.lock == first.lock
    assert second.python != first.python
    assert _against(second.python) == "1.13.2"
    assert node("second")[1] == []


@pytest.mark.needs("compiler")
def test_a_node_of_another_kind_compiles_its_own_and_has_it_kept(node, client):
    compilers = {"programs": ("mpirun", "mpicxx"), "keeps_compiler": True}
    node("first", kind="prepare", **compilers)
    assert "Building horovod==0.16.1" in node("other", mpi="5.0.1", **compilers)[2]
    kept = client.get(f"/attempts/apart-{client.workspace}.1/environment?key={environment_key(SPEC)}")
    assert len(kept["wheels"]) == 2


def test_a_service_that_forgot_is_told_again_when_it_asks_for_a_preparation(node, client):
    node("first", EnvironmentSpec(), kind="prepare")
    client.post("/gc", {"older_than_seconds": 0})
    assert node("first", EnvironmentSpec(), kind="prepare")[1] == []
    kept = client.get(f"/attempts/apart-{client.workspace}.1/environment?key={environment_key(EnvironmentSpec())}")
    assert LockFile.parse(kept["lock"]).versions == ()


def test_a_node_without_the_python_of_the_lock_is_named_with_what_it_lacks(node, client):
    body = {"key": environment_key(EnvironmentSpec()), "python": "3.99", "lock": "", "wheels": []}
    client.post(f"/attempts/apart-{client.workspace}.1/environment", body)
    with pytest.raises(EnvironmentFailed, match=r"On node bare: .* needs Python 3\.99, and this machine has 3\."):
        node("bare", EnvironmentSpec())
