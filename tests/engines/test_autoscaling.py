"""A cluster that Ray's autoscaler lets grow from no node to several and shrink to none again, for what runs want."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from runyard.compute.ray.kind import RaySite
from runyard.compute.vm_sizes import BUILT_IN
from runyard.core.records.nodes import NodeState
from runyard.core.records.runs import RunId
from runyard.server.wiring.core import SystemClock
from runyard.testing.engine_suite import EngineHarness, eventually, on_nodes
from tests.engines.ray_cluster import RayCluster, ray_cluster
from tests.node.recording_service import RecordingService

pytestmark = pytest.mark.engines
SCALING_SECONDS = 60.0
IDLE_SECONDS = 3.0


@pytest.fixture(scope="module")
def scaling_cluster() -> Iterator[RayCluster]:
    with ray_cluster() as started, pytest.MonkeyPatch.context() as monkeypatch:
        for name, value in started.variables.items():
            monkeypatch.setenv(name, value)
        started.start_scaling_head(most=3, cpus=2, idle_seconds=IDLE_SECONDS)
        yield started


@pytest.fixture
def desk(home: Path, peer: RecordingService, scaling_cluster: RayCluster) -> Iterator[EngineHarness]:
    url = json.loads((home / "service.json").read_text())["url"]
    made = RaySite(scaling_cluster.address, home, SystemClock(), url=url, ca="", sizes=BUILT_IN, on_change=lambda: None)
    made.link.call("state", seconds=10, patience_seconds=60)
    yield EngineHarness(
        peer=peer,
        open_site=lambda: made.site,
        body={"engine": "ray", "resources": {"cpu": 2}, "max_nodes": 3, "idle_seconds_before_scaledown": 1},
        kill_supervisor=_cannot,
        kill_agent=_cannot,
    )
    made.close()


def _cannot(_: str) -> None:
    raise NotImplementedError


def test_nodes_come_for_a_gang_and_go_when_it_has_ended(desk: EngineHarness, scaling_cluster: RayCluster) -> None:
    run = on_nodes("grows-1", 2)
    assert desk.site.pool.list(desk.cluster) == []
    waiting = desk.site.pool.hold(desk.cluster, run)
    assert "2 nodes" in waiting.waits_for
    assert [node.state for node in desk.site.pool.list(desk.cluster)] == [NodeState.PREPARING, NodeState.PREPARING]
    _soon(lambda: bool(desk.site.pool.hold(desk.cluster, run).nodes), "two nodes")
    desk.start(run, "import os; print('begun', os.environ['RUNYARD_PART'])")
    assert {report["outcome"] for report in desk.ended(2)} == {"completed"}
    desk.site.pool.release(run.id)
    _soon(lambda: _resized(desk) == 0, "no node")


def test_a_minimum_is_kept_without_any_run_and_given_up_with_its_target(desk: EngineHarness) -> None:
    kept = replace(desk.cluster, body={**desk.body, "min_nodes": 1})
    desk.site.pool.resize([kept], living=set())
    _soon(lambda: len(desk.site.pool.list(kept)) == 1, "one node")
    _soon(lambda: _resized(desk) == 0, "no node")


def _resized(desk: EngineHarness) -> int:
    """What the controller does now and then."""
    desk.site.pool.resize([desk.cluster], living=set[RunId]())
    return len(desk.site.pool.list(desk.cluster))


def _soon(look: Callable[[], bool], what: str) -> None:
    eventually(lambda: what if not look() else "", lambda missing: not missing, seconds=SCALING_SECONDS)
