"""Parts of runs in images, on nodes of this machine, with a service that only remembers."""

import time
from dataclasses import replace
from datetime import timedelta

import pytest

from runyard.compute.local.kind import LocalEngine
from runyard.core.ports.engine import ticket_for
from runyard.core.records.launch_plan import (
    ContainerRequest,
    EnvironmentSpec,
    ImageSpec,
    LaunchPlan,
    NodePlan,
    ProcessSpec,
)
from runyard.environments.containers.engine import ContainerEngine
from runyard.node.task_folder import TaskFolder
from tests.node.conftest import a_plan
from tests.node.conftest import home as a_home
from tests.node.conftest import service as a_service

SOON = 60.0


class Nodes:
    """Starts parts in an image as it is, and sees what containers of them there are."""

    def __init__(self, home, service, docker: ContainerEngine, image: str) -> None:
        self.home, self.service, self.docker, self.image = home, service, docker, image
        self.engine = LocalEngine(home)
        self.python = "/usr/bin/python3"

    def plan(self, script: str, *arguments: str, container: ContainerRequest | None = None, **fields) -> LaunchPlan:
        spec = EnvironmentSpec(user_managed=True, image=ImageSpec(base=self.image, interpreter=self.python))
        plan = a_plan(self.service, script, *arguments, **{"environment": spec, **fields})
        return replace(plan, container=container or ContainerRequest())

    def submit(self, script: str, *arguments: str, **fields) -> str:
        return self.engine.submit(self.plan(script, *arguments, **fields))

    def submit_to(self, plan: LaunchPlan, *nodes: list[ProcessSpec], **of_nodes) -> str:
        """On several nodes, each given as its processes."""
        places = tuple(
            NodePlan(f"127.0.9.{number + 1}", tuple(processes), name=f"cluster-{number}", **of_nodes)
            for number, processes in enumerate(nodes)
        )
        self.gather(plan, len(nodes))
        return self.engine.submit(replace(plan, nodes=places))

    def gather(self, plan: LaunchPlan, count: int) -> None:
        def stop(attempt_id: str, end_as: str) -> None:
            self.engine.cancel(ticket_for(attempt_id, count), grace=timedelta(seconds=3), end_as=end_as)

        self.service.gather(plan.attempt_id, count, stop)

    def let_go(self, part: str = "run1.1") -> None:
        (TaskFolder(self.home, part).work / "go").touch()

    def containers(self) -> list[str]:
        """Names of all there are of this home, running or not."""
        return [one.name for one in self.docker.containers.with_labels({"runyard.home": str(self.home)})]

    def await_gone(self, part: str) -> None:
        """Its supervisor has left, and its folder with it."""
        deadline = time.monotonic() + SOON
        while TaskFolder(self.home, part).root.exists():
            assert time.monotonic() < deadline

    def ended(self, **which) -> dict:
        """How the part ended, of which no container is left by then."""
        return self.service.ended(seconds=SOON, **which)


@pytest.fixture
def a_place_for_runs(home, service, docker, debian_python, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", docker.address)
    nodes = Nodes(home, service, docker, debian_python)
    yield nodes
    for name in nodes.containers():
        docker.containers.remove(name)


fixtures = a_home, a_service, a_place_for_runs
"""For a module to have as `home`, `service` and `nodes`."""
