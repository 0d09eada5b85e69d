"""kill -9 of everything behind a run on a Ray cluster: the end is true, no process is left, and the next run works."""

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from azureml.core import Run
from runyard.node.processes.procfs import processes_with_variable
from tests.engines.ray_cluster import RayCluster, below, ray_cluster
from tests.engines.test_runs_on_ray import GOES_ON, GREETS, begun, on_ray, yard_on
from tests.faults.yard import Yard, ended, eventually, kill, message_of, this_python
from tests.processes import pids, words_of

pytestmark = pytest.mark.engines
NODES = 2
LEFT_SECONDS = 30
# Writes by both ways that a script has: through its node, and with its own token.
WRITES_ON = """
import contextlib, os, sys, time
from azureml.core import Run
run, attempt = Run.get_context(), os.environ["RUNYARD_ATTEMPT"].rpartition(".")[2]
print("begun", attempt, flush=True)
while not os.path.exists(sys.argv[1]):
    print("attempt", attempt, "at", time.time(), flush=True)
    with contextlib.suppress(Exception):
        run.tag("attempt-" + attempt, str(time.time()))
    time.sleep(0.05)
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    with ray_cluster() as started, pytest.MonkeyPatch.context() as monkeypatch:
        for name, value in started.variables.items():
            monkeypatch.setenv(name, value)
        started.start_head()
        started.start_nodes(NODES)
        yield started


@pytest.fixture(scope="module")
def yard(cluster: RayCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    with yard_on(cluster, tmp_path_factory.mktemp("ray-faults")) as opened:
        yield opened


@pytest.fixture
def gang(yard: Yard, tmp_path: Path) -> Run:
    """A run that is at work on both nodes until its gate is opened."""
    run = yard.submit(GOES_ON, arguments=(tmp_path / "gate",), **on_ray(NODES))
    begun(run, NODES)
    return run


def the_next_run_works(yard: Yard) -> None:
    following = ended(yard.submit(GREETS, **on_ray(NODES)))
    assert following.get_status() == "Completed", message_of(following)


def nothing_is_left(run: Run) -> None:
    eventually(
        lambda: not processes_with_variable("RUNYARD_ATTEMPT", f"{run.id}.1"),
        f"the end of all of {run.id}",
        LEFT_SECONDS,
    )


def agent_homes(cluster: RayCluster, run: Run) -> dict[str, Path]:
    """Of each part of the run: the home of its node."""
    return {place.name: place.parent.parent for place in cluster.node_home.glob(f"*/*/attempts/{run.id}.*")}


def processes_named(words: bytes, among: list[int]) -> list[int]:
    return [pid for pid in among if words in next(words_of(pid), b"")]


def kill_agents(yard: Yard, cluster: RayCluster, run: Run) -> None:
    for home in agent_homes(cluster, run).values():
        kill(json.loads((home / "agent.json").read_text())["pid"])


def kill_actors(yard: Yard, cluster: RayCluster, run: Run) -> None:
    actors = processes_named(b"ray::RayNodeAgent", cluster.processes())
    assert actors
    for pid in actors:
        kill(pid)


def kill_bridge(yard: Yard, cluster: RayCluster, run: Run) -> None:
    bridges = processes_named(b"runyard.compute.ray.bridge", yard.processes())
    assert bridges
    for pid in bridges:
        kill(pid)


def kill_service(yard: Yard, cluster: RayCluster, run: Run) -> None:
    yard.kill("service", run)
    yard.restart()


@pytest.mark.parametrize("victim", [kill_agents, kill_actors, kill_bridge, kill_service], ids=lambda f: f.__name__)
def test_a_run_goes_on_without(
    yard: Yard, cluster: RayCluster, gang: Run, tmp_path: Path, victim: Callable[[Yard, RayCluster, Run], None]
) -> None:
    victim(yard, cluster, gang)
    (tmp_path / "gate").touch()
    assert ended(gang).get_status() == "Completed", message_of(gang)
    nothing_is_left(gang)
    the_next_run_works(yard)


@pytest.mark.parametrize("victim", [kill_agents, kill_actors, kill_bridge, kill_service], ids=lambda f: f.__name__)
def test_a_run_can_still_be_canceled_without(
    yard: Yard, cluster: RayCluster, gang: Run, victim: Callable[[Yard, RayCluster, Run], None]
) -> None:
    victim(yard, cluster, gang)
    gang.cancel()
    assert ended(gang).get_status() == "Canceled"
    nothing_is_left(gang)


def test_a_run_is_canceled_though_the_actor_of_a_node_is_frozen(yard: Yard, cluster: RayCluster, gang: Run) -> None:
    actors = processes_named(b"ray::RayNodeAgent", cluster.processes())
    send(signal.SIGSTOP, actors[:1])
    gang.cancel()
    assert ended(gang).get_status() == "Canceled"
    nothing_is_left(gang)
    the_next_run_works(yard)


def test_a_killed_supervisor_fails_the_run_and_its_peers_are_stopped(
    yard: Yard, cluster: RayCluster, gang: Run
) -> None:
    home = agent_homes(cluster, gang)[f"{gang.id}.1-1"]
    kill(json.loads((home / "attempts" / f"{gang.id}.1-1" / "supervisor.json").read_text())["pid"])
    assert ended(gang).get_status() == "Failed"
    assert "supervisor" in message_of(gang)
    nothing_is_left(gang)
    the_next_run_works(yard)


def test_a_killed_raylet_fails_the_run_within_seconds_and_names_the_node(
    yard: Yard, cluster: RayCluster, gang: Run
) -> None:
    address = "127.0.0.3"
    cluster.kill_raylet(address)
    killed_at = time.monotonic()
    try:
        assert ended(gang).get_status() == "Failed"
        assert time.monotonic() - killed_at < 20
        assert address in message_of(gang)
        nothing_is_left(gang)
    finally:
        cluster.start_nodes(1, first=3)
    the_next_run_works(yard)


def test_a_frozen_raylet_fails_the_run_and_leaves_nothing_when_it_thaws(
    yard: Yard, cluster: RayCluster, gang: Run
) -> None:
    address = "127.0.0.2"
    raylet = cluster.raylet_of(address)
    os.kill(raylet, signal.SIGSTOP)
    try:
        assert ended(gang).get_status() == "Failed"
        assert address in message_of(gang)
    finally:
        os.kill(raylet, signal.SIGCONT)
    nothing_is_left(gang)
    eventually(lambda: raylet not in pids(), "the end of a raylet that was given up", LEFT_SECONDS)
    cluster.start_nodes(1, first=2)
    the_next_run_works(yard)


def test_a_frozen_node_cannot_write_to_the_run_that_went_on_elsewhere(
    yard: Yard, cluster: RayCluster, tmp_path: Path
) -> None:
    environment = this_python()
    environment.environment_variables = {"RUNYARD_MAX_ATTEMPTS": "2"}
    run = yard.submit(WRITES_ON, arguments=(tmp_path / "gate",), environment=environment, **on_ray())
    eventually(lambda: times_of(run, "1") and "attempt-1" in run.get_tags(), "the first attempt at work", 60)
    home = agent_homes(cluster, run)[f"{run.id}.1"]
    raylet, agent = (
        cluster.raylet_of(home.name.rpartition("-")[0]),
        json.loads((home / "agent.json").read_text())["pid"],
    )
    of_part = [process.pid for process in processes_with_variable("RUNYARD_ATTEMPT", f"{run.id}.1")]
    supervisor = json.loads((home / "attempts" / f"{run.id}.1" / "supervisor.json").read_text())["pid"]
    frozen = [raylet, *below(raylet), agent, supervisor, *of_part]
    send(signal.SIGSTOP, frozen)
    frozen_at = time.time()
    try:
        eventually(lambda: times_of(run, "2"), "the second attempt at work", 60)
        # Its raylet and its agent sleep on, so that the refusal of the service is all that can end it.
        send(signal.SIGCONT, [supervisor, *of_part])
        nothing_is_left(run)
    finally:
        send(signal.SIGCONT, frozen)
    (tmp_path / "gate").touch()
    assert ended(run).get_status() == "Completed", message_of(run)
    assert max(times_of(run, "1")) < frozen_at
    assert float(run.get_tags()["attempt-1"]) < frozen_at < float(run.get_tags()["attempt-2"])
    eventually(lambda: not {raylet, agent} & set(pids()), "the end of a node that was given up", LEFT_SECONDS)
    cluster.start_nodes(1, first=int(home.name.rpartition("-")[0].rpartition(".")[2]))
    the_next_run_works(yard)


def times_of(run: Run, attempt: str) -> list[float]:
    """At which the attempt wrote what has come to the run's log."""
    lines = run.get_details_with_logs()["logFiles"].get("azureml-logs/70_driver_log.txt", "").splitlines()
    return [float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"attempt {attempt} at ")]


def send(number: signal.Signals, victims: list[int]) -> None:
    for pid in victims:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def test_a_head_that_is_killed_takes_its_nodes_along_and_the_run_has_failed_when_it_is_back(
    yard: Yard, cluster: RayCluster, gang: Run
) -> None:
    raylets = {cluster.raylet_of(f"127.0.0.{number}") for number in (2, 3)}
    cluster.kill_head()
    # They give their head up after a while, which our cluster sets to ten seconds; the agents go with them.
    eventually(lambda: not raylets & set(pids()), "the end of raylets without a head", 60)
    nothing_is_left(gang)
    assert gang.get_status() == "Running", "a cluster that does not answer is no sign of loss"
    cluster.start_head()
    assert ended(gang).get_status() == "Failed"
    assert "has left the Ray cluster" in message_of(gang)
    cluster.start_nodes(NODES)
    the_next_run_works(yard)
