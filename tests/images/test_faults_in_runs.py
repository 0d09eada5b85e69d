"""What befalls a run in a container: those who look after it are killed, its engine goes away, somebody ends it."""

import os
import signal

import pytest

from runyard.node.agent_socket import ask_agent
from runyard.node.attempt import AttemptFolder
from runyard.node.containers.left import marks_in
from runyard.node.processes import carrying
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
    os.kill(AttemptFolder(home, "run1.1").supervisor().pid, signal.SIGKILL)
    ended = nodes.ended()
    assert "supervisor was killed while the script was running" in ended["error"]["message"]
    assert service.journals["run1~0-1-a"] == b"[1]\n"
    assert nodes.containers() == []
    assert carrying("RUNYARD_PART", "run1.1", home=home) == set()


def test_a_killed_agent_harms_no_run(nodes, service, home):
    nodes.submit(WAITS)
    wait_for_script(service)
    os.kill(ask_agent(home, {"op": "status"})["pid"], signal.SIGKILL)
    nodes.let_go()
    assert nodes.ended()["outcome"] == "completed"
    assert service.files["outputs/end"] == b"x"
    assert nodes.containers() == []


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


def daemon_pid(nodes) -> int:
    socket = nodes.docker.address.removeprefix("unix://")
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                words = open(f"/proc/{name}/cmdline", "rb").read().decode().split("\0")
            except OSError:
                continue
            if words[0].endswith("dockerd") and any(socket in word for word in words):
                return int(name)
    raise AssertionError("no dockerd of that socket runs")


def test_an_engine_that_is_stopped_mid_run_is_the_cause_in_words(on_own_engine, service, home):
    nodes = on_own_engine
    nodes.submit(WAITS)
    wait_for_script(service)
    os.kill(daemon_pid(nodes), signal.SIGTERM)
    ended = nodes.ended()
    assert ended["outcome"] == "failed"
    assert "since its engine was stopped" in ended["error"]["message"]
    assert ended["error"]["cause"] == "engine_failed"
    assert "could not be removed" in ended["warnings"][0]
    assert carrying("RUNYARD_PART", "run1.1", home=home) == set()
    assert len(marks_in(home)) == 1


def test_a_run_outlives_its_engine_that_was_killed(on_own_engine, service, home):
    nodes = on_own_engine
    nodes.submit(WAITS)
    wait_for_script(service)
    os.kill(daemon_pid(nodes), signal.SIGKILL)
    nodes.let_go()
    ended = nodes.ended()
    assert (ended["outcome"], ended["exit_code"]) == ("completed", 0)
    assert service.files["outputs/end"] == b"x"


def test_no_engine_is_one_clear_error(nodes, monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    nodes.submit("print(1)")
    ended = nodes.ended()
    assert ended["error"]["cause"] == "no_engine"
    assert "without_engine=virtual-environment" in ended["error"]["message"]
