"""What befalls a run in a container: those who look after it are killed, its engine goes away, somebody ends it."""

import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest

from runyard.core.records.launch_plan import EnvironmentSpec, ImageSpec
from runyard.environments.containers.containers import ContainerSpec
from runyard.node.containers.markers import container_labels, list_markers, write_marker
from runyard.node.home_socket import ask_agent
from runyard.node.processes.procfs import ProcessId, descendants, processes_with_variable
from runyard.node.task_folder import TaskFolder
from runyard.testing.base_images import WITH_PYTHON
from tests.images.conftest import imported
from tests.images.parts import Nodes, fixtures
from tests.node.conftest import driver_log

pytestmark = pytest.mark.images
home, service, nodes = fixtures

WAITS = """
import os, time
print('waits', flush=True)
open(os.environ['RUNYARD_JOURNALS'] + '/run1~0-1-a.jsonl', 'a').write('[1]\\n')
while not os.path.exists('go'): time.sleep(0.01)
open('outputs/end', 'w').write('x')
print('done')
"""


def wait_for_script(service) -> None:
    service.wait_for(lambda: "waits" in driver_log(service), 60)


def test_a_killed_supervisor_is_followed_by_one_that_ends_the_container(nodes, service, home):
    nodes.submit(WAITS)
    wait_for_script(service)
    os.kill(TaskFolder(home, "run1.1").supervisor().pid, signal.SIGKILL)
    ended = nodes.ended()
    assert "supervisor was killed while the script was running" in ended["error"]["message"]
    assert service.journals["run1~0-1-a"] == b"[1]\n"
    assert nodes.containers() == []
    assert processes_with_variable("RUNYARD_PART", "run1.1", home=home) == set()


def test_an_end_that_a_killed_supervisor_did_not_hear_is_known_to_the_next(nodes, service, home):
    nodes.submit(WAITS)
    wait_for_script(service)
    folder = TaskFolder(home, "run1.1")
    supervisor = folder.supervisor().pid
    os.kill(supervisor, signal.SIGSTOP)
    nodes.let_go()
    service.wait_for(lambda: list(folder.root.glob("containers/*/news.ended")), 60)
    os.kill(supervisor, signal.SIGKILL)
    ended = nodes.ended()
    assert (ended["outcome"], ended["exit_code"]) == ("completed", 0)
    assert service.files["outputs/end"] == b"x"
    assert nodes.containers() == []


def test_a_killed_agent_harms_no_run(nodes, service, home):
    nodes.submit(WAITS)
    wait_for_script(service)
    os.kill(ask_agent(home, {"op": "status"})["pid"], signal.SIGKILL)
    nodes.let_go()
    assert nodes.ended()["outcome"] == "completed"
    assert service.files["outputs/end"] == b"x"
    assert nodes.containers() == []


def wait_for_mark(home) -> None:
    """The moment before the engine is asked to make the container."""
    deadline = time.monotonic() + 60
    while not list_markers(home):
        assert time.monotonic() < deadline


def test_a_cancel_while_the_container_is_being_made_leaves_nothing(nodes, home):
    ticket = nodes.submit(WAITS)
    wait_for_mark(home)
    nodes.engine.cancel(ticket, grace=timedelta(seconds=1))
    assert nodes.ended()["outcome"] == "canceled"
    nodes.await_gone("run1.1")
    assert nodes.containers() == []
    assert processes_with_variable("RUNYARD_PART", "run1.1", home=home) == set()


def test_a_supervisor_killed_while_the_container_is_being_made_leaves_nothing(nodes, home):
    nodes.submit(WAITS)
    wait_for_mark(home)
    os.kill(TaskFolder(home, "run1.1").supervisor().pid, signal.SIGKILL)
    assert nodes.ended()["outcome"] == "failed"
    nodes.await_gone("run1.1")
    assert nodes.containers() == []
    assert processes_with_variable("RUNYARD_PART", "run1.1", home=home) == set()


@pytest.mark.parametrize("end", ["kill", "remove"])
def test_a_container_that_somebody_ends_is_told_as_such(nodes, service, end):
    nodes.submit(WAITS)
    wait_for_script(service)
    getattr(nodes.docker.containers, end)(nodes.containers()[0])
    ended = nodes.ended()
    assert ended["outcome"] == "failed"
    assert "was ended from outside" in ended["error"]["message"]
    assert nodes.containers() == []


@pytest.fixture
def on_own_engine(home, service, own_docker, monkeypatch):
    """Nodes whose engine the test may stop."""
    engine = own_docker()
    monkeypatch.setenv("DOCKER_HOST", engine.address)
    return Nodes(home, service, engine, imported(engine, WITH_PYTHON))


def daemon_of(nodes) -> ProcessId:
    """The dockerd that listens at the nodes' engine's address."""
    (found,) = (
        process
        for process in descendants(1) | descendants(os.getpid())
        if words_of(process)[0].endswith("dockerd") and nodes.docker.address in words_of(process)
    )
    return found


def words_of(process: ProcessId) -> list[str]:
    try:
        return Path(f"/proc/{process.pid}/cmdline").read_text().split("\0")
    except OSError:
        return [""]


def test_an_engine_that_is_stopped_mid_run_is_the_cause_in_words(on_own_engine, service, home):
    nodes = on_own_engine
    nodes.submit(WAITS)
    wait_for_script(service)
    daemon_of(nodes).send(signal.SIGTERM)
    ended = nodes.ended()
    assert ended["outcome"] == "failed"
    assert "since its engine was stopped" in ended["error"]["message"]
    assert ended["error"]["cause"] == "engine_failed"
    assert "could not be removed" in ended["warnings"][0]
    assert processes_with_variable("RUNYARD_PART", "run1.1", home=home) == set()
    assert len(list_markers(home)) == 1


def test_a_run_outlives_its_engine_that_was_killed(on_own_engine, service, home):
    nodes = on_own_engine
    nodes.submit(WAITS)
    wait_for_script(service)
    daemon_of(nodes).send(signal.SIGKILL)
    nodes.let_go()
    ended = nodes.ended()
    assert (ended["outcome"], ended["exit_code"]) == ("completed", 0)
    assert service.files["outputs/end"] == b"x"


def test_what_no_supervisor_removed_is_removed_by_the_next_agent(nodes, service, home):
    """As when the machine went down with a container's part delivered and its engine away."""
    spec = ContainerSpec(
        nodes.image, ("sleep", "600"), labels=container_labels(home, "gone.1"), name="runyard-left-behind"
    )
    nodes.docker.containers.start(nodes.docker.containers.create(spec))
    write_marker(home, "gone.1", "runyard-left-behind", nodes.docker)
    nodes.engine.warm()
    deadline = time.monotonic() + 30
    while nodes.containers() or list_markers(home):
        assert time.monotonic() < deadline


def test_a_node_that_falls_takes_its_containers_along(nodes, service, home):
    nodes.submit(WAITS)
    wait_for_script(service)
    agent = ask_agent(home, {"op": "status"})["pid"]
    os.kill(agent, signal.SIGKILL)
    ended = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from pathlib import Path; from runyard.node.guard import kill_all_tasks; "
            "kill_all_tasks(Path(sys.argv[1]))",
            str(home),
        ],
        timeout=60,
        check=True,
    )
    assert ended.returncode == 0
    assert nodes.containers() == []
    assert processes_with_variable("RUNYARD_PART", "run1.1", home=home) == set()


def test_no_engine_is_one_clear_error(nodes, monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    nodes.submit("print(1)")
    ended = nodes.ended()
    assert ended["error"]["cause"] == "no_engine"
    assert "without_engine=virtual-environment" in ended["error"]["message"]


def test_without_an_engine_the_packages_are_in_a_virtual_environment_where_that_is_allowed(
    nodes, service, monkeypatch, tmp_path
):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    service.package_settings = {"without_engine": "virtual-environment"}
    wished = EnvironmentSpec(python="3.11", image=ImageSpec(base="team/cntk:2.5.1"))
    nodes.submit("import os; print('in a container', os.getppid() == 1)", environment=wished)
    ended = nodes.ended()
    assert ended["outcome"] == "completed"
    assert "There is no container engine" in ended["warnings"][0]
    assert driver_log(service).startswith("Runyard: There is no container engine")
    assert "in a container False" in driver_log(service)
