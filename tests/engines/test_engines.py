"""The suite of engines, on this machine and on a real Ray cluster of several nodes."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from runyard.compute.local.kind import LocalEngine
from runyard.compute.local.pool import LocalPool
from runyard.compute.ray.kind import RaySite
from runyard.compute.vm_sizes import BUILT_IN
from runyard.core.ports.engine import Disk, Site
from runyard.core.records.nodes import Node
from runyard.node.processes.procfs import identify
from runyard.node.task_folder import TaskFolder
from runyard.server.wiring.core import SystemClock
from runyard.storage.sql.stores import open_stores
from runyard.testing.engine_suite import EngineHarness, EngineSuite, eventually, kill
from runyard.testing.records import a_workspace
from tests.engines.ray_cluster import RayCluster
from tests.node.recording_service import RecordingService


def kill_supervisor(home: Path, part: str) -> None:
    supervisor = eventually(TaskFolder(home, part).supervisor, lambda found: found is not None)
    assert supervisor is not None
    kill(supervisor)


def kill_agent(home: Path) -> None:
    agent = identify(json.loads((home / "agent.json").read_text())["pid"])
    assert agent is not None
    kill(agent)


class TestLocal(EngineSuite):
    @pytest.fixture
    def desk(self, home: Path, peer: RecordingService) -> Iterator[EngineHarness]:
        stores = open_stores(f"sqlite:///{home}/runyard.db")
        stores.assets.create_workspace(a_workspace())

        def open_site() -> Site:
            return Site("local", LocalEngine(home), LocalPool(stores.nodes, SystemClock()), "", Disk.SERVICE)

        yield EngineHarness(
            peer=peer,
            open_site=open_site,
            body={"type": "AmlCompute", "max_nodes": 3},
            kill_supervisor=lambda part: kill_supervisor(home, part),
            kill_agent=lambda _: kill_agent(home),
        )
        stores.close()


@pytest.mark.engines
class TestRay(EngineSuite):
    @pytest.fixture
    def desk(self, home: Path, peer: RecordingService, cluster: RayCluster) -> Iterator[EngineHarness]:
        address = cluster.address
        # Another service has other agents, which take seconds to start on each node.
        (home / "service-id").write_text("0123456789ab")
        url = json.loads((home / "service.json").read_text())["url"]
        opened: list[RaySite] = []
        lost: list[str] = []

        def open_site() -> Site:
            for earlier in opened:
                earlier.close()
            made = RaySite(address, home, SystemClock(), url=url, ca="", sizes=BUILT_IN, on_change=lambda: None)
            opened.append(made)
            made.link.call("state", seconds=10, patience_seconds=60)
            return made.site

        def lose(node: Node) -> None:
            lost.append(node.address)
            cluster.kill_raylet(node.address)

        def home_of(part: str) -> Path:
            (found,) = cluster.node_home.glob(f"*/*/attempts/{part}")
            return found.parent.parent

        desk = EngineHarness(
            peer=peer,
            open_site=open_site,
            body={"type": "Ray", "engine": "ray", "address": address, "resources": {"cpu": 2}, "max_nodes": 3},
            kill_supervisor=lambda part: kill_supervisor(home_of(part), part),
            kill_agent=lambda part: kill_agent(home_of(part)),
            lose_node=lose,
        )
        yield desk
        desk.site.pool.resize([], living=set())
        opened[-1].close()
        for number in {int(address.rpartition(".")[2]) for address in lost}:
            cluster.start_nodes(1, first=number)
