"""What is Ray's own beside the suite: its client, GPUs, two services at once, what is wrong with a cluster."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from runyard.compute.ray.kind import RaySite, check_address
from runyard.compute.vm_sizes import BUILT_IN
from runyard.core.errors import EngineError
from runyard.server.wiring.core import SystemClock
from runyard.testing.engine_suite import GOES_ON, EngineHarness, eventually, on_nodes
from tests.engines.ray_cluster import RayCluster
from tests.node.recording_service import RecordingService

pytestmark = pytest.mark.engines
OpenDesk = Callable[..., EngineHarness]
CONNECT_SECONDS = 120.0
"""Ray starts a server for each client, and gives it up when that takes long: the bridge then tries again."""


@pytest.fixture
def open_desk(home: Path, peer: RecordingService) -> Iterator[OpenDesk]:
    """A service of its own on a cluster."""
    url = json.loads((home / "service.json").read_text())["url"]
    opened: list[tuple[EngineHarness, RaySite]] = []

    def open_desk(address: str, folder: str = "", **body: object) -> EngineHarness:
        place = home / folder
        place.mkdir(exist_ok=True)
        made = RaySite(address, place, SystemClock(), url=url, ca="", sizes=BUILT_IN, on_change=lambda: None)
        made.link.start()
        eventually(made.link.away_seconds, lambda seconds: seconds == 0, seconds=CONNECT_SECONDS)
        whole = {"engine": "ray", "resources": {"cpu": 1}, "max_nodes": 3, **body}
        desk = EngineHarness(peer, lambda: made.site, whole, kill_supervisor=_cannot, kill_agent=_cannot)
        opened.append((desk, made))
        return desk

    yield open_desk
    for desk, made in opened:
        desk.site.pool.resize([], living=set())
        made.close()


def _cannot(_: str) -> None:
    raise NotImplementedError


def test_a_gang_runs_and_is_canceled_by_rays_client(open_desk: OpenDesk, cluster: RayCluster) -> None:
    desk = open_desk(cluster.client_address)
    run = on_nodes("client-1", 2)
    ticket = desk.start(run, GOES_ON)
    desk.begun(run, 2)
    desk.site.engine.cancel(ticket, grace=timedelta(seconds=0.2))
    assert {report["outcome"] for report in desk.ended(2)} == {"canceled"}
    assert desk.processes(run) == set()


def test_a_run_is_told_the_gpus_that_ray_gave_to_it_and_no_two_runs_the_same(
    open_desk: OpenDesk, cluster: RayCluster
) -> None:
    desk = open_desk(cluster.address, resources={"gpu": 1})
    assert desk.site.pool.gpus_promised(desk.cluster) == 1
    given = [desk.take(on_nodes(f"gpu-{number}", 1)).nodes[0] for number in range(3)]
    assert all(node.gpus and len(node.gpus) == 1 for node in given)
    assert len({(node.address, node.gpus) for node in given}) == 3


def test_two_services_on_one_cluster_do_not_meet(open_desk: OpenDesk, cluster: RayCluster) -> None:
    one, other = open_desk(cluster.address, "one"), open_desk(cluster.address, "other")
    run = on_nodes("same-1", 1)
    one.take(run)
    assert other.site.pool.held_by(other.cluster, run).nodes == ()
    other.site.pool.resize([], living=set())
    assert len(one.site.pool.held_by(one.cluster, run).nodes) == 1


def test_a_gang_that_waits_is_there_once_others_let_go(open_desk: OpenDesk, cluster: RayCluster) -> None:
    desk = open_desk(cluster.address, resources={"cpu": 2}, max_nodes=6)
    desk.take(on_nodes("first-1", 2))
    waiting = on_nodes("second-1", 2)
    assert "with 2 CPU each" in desk.site.pool.hold(desk.cluster, waiting).waits_for
    desk.site.pool.release(replace(waiting).id)
    desk.site.pool.hold(desk.cluster, waiting)
    desk.site.pool.release(on_nodes("first-1", 2).id)
    assert len(desk.take(waiting).nodes) == 2


def test_a_cluster_that_is_well_passes_the_check(home: Path, cluster: RayCluster) -> None:
    check_address(home, cluster.address)


def test_a_cluster_that_wants_another_token_says_so(
    home: Path, cluster: RayCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("0" * 64)
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.setenv("RAY_NUM_REDIS_GET_RETRIES", "2")
    with pytest.raises(EngineError, match="wants a token"):
        check_address(home, cluster.address)


def test_a_bridge_that_is_killed_is_replaced(open_desk: OpenDesk, cluster: RayCluster, home: Path) -> None:
    made = RaySite(cluster.address, home, SystemClock(), url="", ca="", sizes=BUILT_IN, on_change=lambda: None)
    try:
        made.link.call("state", seconds=10, patience_seconds=60)
        process = made.link._process
        assert process is not None
        process.kill()
        eventually(made.link.bridge_pid, lambda pid: pid not in (None, process.pid))
        eventually(made.link.away_seconds, lambda seconds: seconds == 0)
        assert made.link.call("state", seconds=10)["nodes"]
    finally:
        made.close()
