"""The same runs by podman, which speaks Docker's API."""

from datetime import timedelta

import pytest

from runyard.core.records.launch_plan import ContainerRequest
from runyard.testing.base_images import WITH_PYTHON
from tests.images.conftest import imported
from tests.images.parts import Nodes, fixtures
from tests.node.conftest import driver_log

pytestmark = pytest.mark.images
home, service, _ = fixtures


@pytest.fixture
def nodes(home, service, podman, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", podman.address)
    return Nodes(home, service, podman, imported(podman, WITH_PYTHON))


def test_a_script_runs_and_ends_as_it_ended(nodes, service):
    nodes.submit("import os, sys\nprint('first', os.getppid())\nopen('outputs/a', 'w').write('x')\nsys.exit(7)")
    assert nodes.ended()["exit_code"] == 7, driver_log(service)
    assert "first 1" in driver_log(service)
    assert service.files["outputs/a"] == b"x"
    assert nodes.containers() == []


def test_a_cancel_ends_the_container(nodes, service):
    ticket = nodes.submit("import time\nprint('waits', flush=True)\ntime.sleep(600)")
    service.wait_for(lambda: "waits" in driver_log(service), 60)
    nodes.engine.cancel(ticket, grace=timedelta(seconds=5))
    assert nodes.ended()["outcome"] == "canceled"
    assert nodes.containers() == []


def test_a_limit_of_memory_is_told(nodes):
    nodes.submit("held = [bytearray(1 << 20) for _ in range(400)]", container=ContainerRequest(memory_bytes=64 << 20))
    assert nodes.ended()["oom"]
