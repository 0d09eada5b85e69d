"""Runs on a Ray cluster as a user has them: through the SDK and a real service that shares no files with the nodes."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from azureml.core import Run
from azureml.core.compute import ComputeTarget, RayCompute
from azureml.core.runconfig import MpiConfiguration, PyTorchConfiguration
from runyard.node.processes.procfs import processes_with_variable
from runyard_sdk.client import Client
from tests.engines.ray_cluster import RayCluster
from tests.faults.yard import Yard, ended, eventually, message_of

pytestmark = pytest.mark.engines
GREETS = """
import os, pathlib
from azureml.core import Run
run = Run.get_context()
rank = int(os.environ.get("RANK", "0"))
run.log("rank", rank)
pathlib.Path("outputs").mkdir(exist_ok=True)
pathlib.Path("outputs", f"rank-{rank}.txt").write_text(os.environ["RUNYARD_PART"])
print("rank", rank, "of", os.environ.get("WORLD_SIZE", "1"), "on", os.environ.get("NODE_RANK", "0"))
"""
GOES_ON = """
import os, subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import os, time; os.setsid(); time.sleep(600)"])
print("begun", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
"""
# By Open MPI's own library: ranks of two nodes find one another, add up, and tell in whose folder they work.
ADDS_UP = """
import ctypes, os, sys
mpi = ctypes.CDLL("libmpi.so.40", ctypes.RTLD_GLOBAL)
world = ctypes.byref(ctypes.c_char.in_dll(mpi, "ompi_mpi_comm_world"))
integer, total = (ctypes.byref(ctypes.c_char.in_dll(mpi, name)) for name in ("ompi_mpi_int", "ompi_mpi_op_sum"))
mpi.MPI_Init(None, None)
rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
mine, added = ctypes.c_int(rank + 1), ctypes.c_int()
mpi.MPI_Allreduce(ctypes.byref(mine), ctypes.byref(added), 1, integer, total, world)
print("sum", added.value, "in", os.getcwd(), flush=True)
if rank == 1 and "--fail" in sys.argv:
    sys.exit("the last words of rank 1")
mpi.MPI_Barrier(world)
mpi.MPI_Finalize()
"""


@contextmanager
def yard_on(cluster: RayCluster, root: Path) -> Iterator[Yard]:
    """A service of its own below `root`, with that cluster attached as "ray"."""
    (root / "sources").mkdir()
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("RUNYARD_HOME", str(root / "home"))
        opened = Yard(root / "sources")
        attach(opened, "ray", cluster.address)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def yard(cluster: RayCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    with yard_on(cluster, tmp_path_factory.mktemp("yard")) as opened:
        yield opened


def attach(yard: Yard, name: str, address: str, **options: Any) -> ComputeTarget:
    configuration = RayCompute.attach_configuration(address=address, **{"cpu": 2, "max_nodes": 3, **options})
    target = ComputeTarget.attach(yard.workspace, name, configuration)
    target.wait_for_completion()
    return target


def on_ray(nodes: int = 1, target: str = "ray") -> dict[str, Any]:
    options: dict[str, Any] = {"compute_target": target}
    if nodes > 1:
        options["distributed_job_config"] = PyTorchConfiguration(process_count=nodes, node_count=nodes)
    return options


def processes_of(run: Run) -> set[Any]:
    return processes_with_variable("RUNYARD_ATTEMPT", f"{run.id}.1")


def begun(run: Run, ranks: int) -> None:
    eventually(
        lambda: sum("begun" in log for log in logs_of(run).values()) == ranks, f"{ranks} ranks of {run.id} at work", 60
    )


def logs_of(run: Run) -> dict[str, str]:
    return {name: log for name, log in run.get_details_with_logs()["logFiles"].items() if "70_driver_log" in name}


def test_a_single_node_run_brings_back_its_log_metrics_and_outputs(yard: Yard, tmp_path: Path) -> None:
    run = ended(yard.submit(GREETS, **on_ray()))
    assert run.get_status() == "Completed", message_of(run)
    assert run.get_metrics()["rank"] == 0
    run.download_file("outputs/rank-0.txt", str(tmp_path / "got.txt"))
    assert (tmp_path / "got.txt").read_text() == f"{run.id}.1"


def test_a_gang_runs_one_rank_on_each_node(yard: Yard, cluster: RayCluster) -> None:
    run = ended(yard.submit(GREETS, **on_ray(3)))
    assert run.get_status() == "Completed", message_of(run)
    assert {name for name in run.get_file_names() if name.startswith("outputs/")} == {
        f"outputs/rank-{rank}.txt" for rank in range(3)
    }
    for rank in range(3):
        assert f"rank {rank} of 3 on {rank}" in logs_of(run)[f"azureml-logs/70_driver_log_{rank}.txt"]


def test_a_cancel_ends_every_rank_within_five_seconds(yard: Yard, tmp_path: Path) -> None:
    run = yard.submit(GOES_ON, arguments=(tmp_path / "go",), **on_ray(2))
    begun(run, 2)
    run.cancel()
    eventually(lambda: run.get_status() == "Canceled", f"the end of {run.id}", 5)
    assert processes_of(run) == set()


def test_a_restart_of_the_service_ends_no_run(yard: Yard, tmp_path: Path) -> None:
    run = yard.submit(GOES_ON, arguments=(tmp_path / "go",), **on_ray(2))
    begun(run, 2)
    yard.kill("service", run)
    yard.restart()
    (tmp_path / "go").touch()
    assert ended(run).get_status() == "Completed", message_of(run)


def test_one_failing_rank_stops_the_others_and_is_named(yard: Yard) -> None:
    script = "import os, sys, time\nif os.environ['RANK'] == '1': sys.exit(3)\ntime.sleep(600)"
    run = ended(yard.submit(script, **on_ray(2)))
    assert run.get_status() == "Failed"
    assert "rank 1" in message_of(run)
    assert "3" in message_of(run)
    assert processes_of(run) == set()


def under_mpi(*, nodes: int, per_node: int = 1) -> dict[str, Any]:
    return {"compute_target": "ray", "distributed_job_config": MpiConfiguration(per_node, nodes)}


def test_ranks_of_mpi_compute_together_each_in_the_home_of_its_own_node(yard: Yard, cluster: RayCluster) -> None:
    run = ended(yard.submit(ADDS_UP, **under_mpi(nodes=2, per_node=2)))
    assert run.get_status() == "Completed", message_of(run)
    words = [logs_of(run)[f"azureml-logs/70_driver_log_{rank}.txt"].split() for rank in range(4)]
    assert [each[:2] for each in words] == [["sum", "10"]] * 4
    homes = [Path(each[3]).relative_to(cluster.node_home).parts[:2] for each in words]
    assert homes[0] == homes[1] != homes[2] == homes[3]
    assert processes_of(run) == set()


def test_a_failing_rank_of_mpi_is_named_with_its_node_and_its_last_words(yard: Yard) -> None:
    run = yard.submit(ADDS_UP, arguments=("--fail",), **under_mpi(nodes=2))
    addresses = eventually(lambda: [node["address"] for node in nodes_of(yard) if node["run_id"] == run.id], "nodes")
    assert ended(run).get_status() == "Failed"
    error = run.get_details()["error"]["error"]
    assert "rank 1" in error["message"]
    assert addresses[1] in error["message"]
    assert "the last words of rank 1" in str(error)
    eventually(lambda: not processes_of(run), f"the end of all of {run.id}", 5)


def test_a_gang_that_cannot_ever_fit_is_refused_with_the_numbers(yard: Yard, cluster: RayCluster) -> None:
    attach(yard, "huge", cluster.address, cpu=64)
    with pytest.raises(Exception, match=r"64 CPU.*2 CPU"):
        yard.submit("print()", **on_ray(target="huge"))
    attach(yard, "wide", cluster.address, max_nodes=9)
    with pytest.raises(Exception, match=r"needs 5 nodes.*can give 3"):
        yard.submit("print()", **on_ray(5, target="wide"))


def test_states_of_nodes_are_seen(yard: Yard, tmp_path: Path) -> None:
    target = ComputeTarget(yard.workspace, "ray")
    run = yard.submit(GOES_ON, arguments=(tmp_path / "go",), **on_ray(2))
    begun(run, 2)
    counts = target.get_status().node_state_counts
    assert (counts.running_node_count, counts.idle_node_count) == (2, 1)
    (tmp_path / "go").touch()
    ended(run)
    eventually(lambda: target.get_status().node_state_counts.idle_node_count == 3, "three idle nodes", 10)


def test_a_dead_address_is_refused_in_plain_words(yard: Yard) -> None:
    with pytest.raises(Exception, match=r"Nobody answers at 127\.0\.0\.9:1"):
        attach(yard, "nobody", "127.0.0.9:1")


def test_a_lost_node_fails_the_run_and_names_it(yard: Yard, cluster: RayCluster, tmp_path: Path) -> None:
    run = yard.submit(GOES_ON, arguments=(tmp_path / "go",), **on_ray(2))
    begun(run, 2)
    address = next(node["address"] for node in nodes_of(yard) if node["run_id"] == run.id)
    cluster.kill_raylet(address)
    try:
        assert ended(run).get_status() == "Failed"
        assert address in message_of(run)
        assert processes_of(run) == set()
    finally:
        cluster.start_nodes(1, first=int(address.rpartition(".")[2]))


def nodes_of(yard: Yard) -> list[dict[str, Any]]:
    return Client().get(f"/workspaces/{yard.workspace.name}/computes/ray/nodes")["nodes"]
