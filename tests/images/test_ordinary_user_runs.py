"""A node of an ordinary user, who may use the machine's engine: what his runs write is his."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from runyard.environments.containers.engine import ContainerEngine

pytestmark = pytest.mark.images
NOBODY = 65534
RUNS = """
import ctypes, json, os, sys, time
from datetime import timedelta
from pathlib import Path
import runyard.environments.images.environments  # which only who builds loads
from runyard.environments.containers.engine import ContainerEngine
from runyard.node import agent
from runyard.node.home_socket import ask_agent
from runyard.node.task_folder import TaskFolder
from tests.images.parts import Nodes
from tests.node.conftest import driver_log
from tests.node.recording_service import RecordingService

# All is loaded by now: he may not be able to read the interpreter's files, nor to start it.
os.setgroups([]), os.setgid(65534), os.setuid(65534)
PR_SET_DUMPABLE = 4  # a process that changed its user may not write about itself in /proc, unlike one that logged in
ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
home = Path(sys.argv[1])
ready, told = os.pipe()
if os.fork() == 0:
    os._exit(agent.main(home, told))
os.read(ready, 1)
service = RecordingService(home)
service.start()
nodes = Nodes(home, service, ContainerEngine(os.environ["DOCKER_HOST"]), sys.argv[2])
ticket = nodes.submit('''
import os, time
open('outputs/own', 'w').write('x')
open(os.environ['HOME'] + '/cache', 'w').write('x')
print('user', os.getuid(), flush=True)
while True: time.sleep(0.05)
''')
service.wait_for(lambda: 'user' in driver_log(service), 60)
owner = (TaskFolder(home, 'run1.1').work / 'outputs' / 'own').stat().st_uid
nodes.engine.cancel(ticket, grace=timedelta(seconds=5))
ended = nodes.ended()
ask_agent(home, {"op": "exit"})
told = {"owner": owner, "said": driver_log(service), "outcome": ended["outcome"], "left": nodes.containers()}
print(json.dumps(told))
service.stop()
"""


@pytest.fixture
def his_folder() -> Iterator[Path]:
    """Those of pytest are open to one user alone."""
    with tempfile.TemporaryDirectory() as folder:
        os.chown(folder, NOBODY, NOBODY)
        yield Path(folder)


@pytest.fixture
def shared_docker(docker: ContainerEngine) -> Iterator[ContainerEngine]:
    """As for a member of the group docker."""
    socket = Path(docker.address.removeprefix("unix://"))
    modes = {path: path.stat().st_mode & 0o777 for path in (socket, socket.parent)}
    socket.chmod(0o666)
    socket.parent.chmod(0o755)
    yield docker
    for path, mode in modes.items():
        path.chmod(mode)


def test_the_files_of_a_run_are_its_users_and_he_can_cancel_it(his_folder, shared_docker, debian_python):
    ran = subprocess.run(
        [sys.executable, "-c", RUNS, str(his_folder), debian_python],
        env={**os.environ, "DOCKER_HOST": shared_docker.address, "HOME": str(his_folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout.splitlines()[-1])
    assert told["owner"] == NOBODY
    assert f"user {NOBODY}" in told["said"]
    assert told["outcome"] == "canceled"
    assert told["left"] == []
