"""Runs of several processes on several nodes of this machine, through the SDK, with plain scripts."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from azureml.core import Experiment, ScriptRunConfig, Workspace
from azureml.core.compute import AmlCompute, ComputeTarget
from azureml.core.runconfig import MpiConfiguration, PyTorchConfiguration, TensorflowConfiguration
from azureml.exceptions import ActivityFailedException, TrainingException, UserErrorException
from azureml.train.dnn import TensorFlow
from tests.sdk.yard import config

SAYS_WHO_IT_IS = """
import os, time
from azureml.core import Run
run = Run.get_context(allow_offline=False)
rank = int(os.environ["RUNYARD_RANK"])
print("I am rank", rank)
print({name: os.environ.get(name) for name in sorted(os.environ) if name in (
    "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "RANK", "WORLD_SIZE", "LOCAL_RANK",
    "NODE_RANK", "MASTER_ADDR", "TF_CONFIG")})
run.log("loss", rank + 0.5)
run.log("loss", rank + 0.25)
run.tag("rank-%d" % rank, "was here")
os.makedirs("outputs", exist_ok=True)
with open("outputs/of-%d.txt" % rank, "w") as sink:
    sink.write(str(rank))
"""
SERVES_FOR_EVER = """
import json, os, time
if json.loads(os.environ["TF_CONFIG"])["task"]["type"] == "ps":
    time.sleep(600)
"""
SECOND_FAILS = """
import os, time
if os.environ["RUNYARD_RANK"] == "1":
    raise ValueError("the second gives up")
time.sleep(600)
"""


@pytest.fixture
def cluster(workspace: Workspace) -> AmlCompute:
    return ComputeTarget.create(workspace, "two", AmlCompute.provisioning_configuration("STANDARD_D2", max_nodes=2))


def submit(experiment: Experiment, folder: Path, job: Any, text: str) -> Any:
    here = config(folder, text).run_config.environment
    source = ScriptRunConfig(
        str(folder), "train.py", compute_target="two", environment=here, distributed_job_config=job
    )
    return experiment.submit(source)


def variables(run: Any, log: str) -> dict[str, Any]:
    text = run.get_details_with_logs()["logFiles"][log]
    found: dict[str, Any] = ast.literal_eval(text.splitlines()[1])
    return found


@pytest.mark.needs("mpi")
def test_mpi_ranks_have_logs_metrics_and_outputs_of_their_own(
    experiment: Experiment, cluster: AmlCompute, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = submit(experiment, tmp_path / "source", MpiConfiguration(2, 2), SAYS_WHO_IT_IS)
    run.wait_for_completion(show_output=True)
    printed = capsys.readouterr().out
    assert "Streaming azureml-logs/70_driver_log_0.txt" in printed
    assert "I am rank 0" in printed
    assert "I am rank 1" not in printed
    logs = [f"azureml-logs/70_driver_log_{rank}.txt" for rank in range(4)]
    names = run.get_file_names()
    assert {*logs, *(f"outputs/of-{rank}.txt" for rank in range(4))} <= set(names)
    for rank, log in enumerate(logs):
        seen = variables(run, log)
        assert seen["OMPI_COMM_WORLD_RANK"] == str(rank)
        assert (seen["OMPI_COMM_WORLD_SIZE"], seen["OMPI_COMM_WORLD_LOCAL_RANK"]) == ("4", str(rank % 2))
    assert sorted(run.get_metrics()["loss"]) == sorted([rank + part for rank in range(4) for part in (0.25, 0.5)])
    assert set(run.get_tags()) >= {f"rank-{rank}" for rank in range(4)}
    written = run.get_all_logs(str(tmp_path / "logs"))
    assert {Path(path).name for path in written} >= {Path(log).name for log in logs}
    definition = run.get_details()["runDefinition"]
    assert (definition["communicator"], definition["nodeCount"]) == ("IntelMpi", 2)
    assert definition["mpi"] == {"processCountPerNode": 2, "nodeCount": 2}
    assert definition["pyTorch"]["communicationBackend"] == "Nccl"


def test_torch_processes_find_one_another(experiment: Experiment, cluster: AmlCompute, tmp_path: Path) -> None:
    run = submit(experiment, tmp_path / "source", PyTorchConfiguration("Gloo", 2, 2), SAYS_WHO_IT_IS)
    run.wait_for_completion()
    seen = [variables(run, f"azureml-logs/70_driver_log_{rank}.txt") for rank in range(2)]
    assert [(one["RANK"], one["LOCAL_RANK"], one["NODE_RANK"], one["WORLD_SIZE"]) for one in seen] == [
        ("0", "0", "0", "2"),
        ("1", "0", "1", "2"),
    ]
    assert seen[0]["MASTER_ADDR"] == seen[1]["MASTER_ADDR"]


def test_parameter_servers_are_ended_when_the_workers_have_ended(
    experiment: Experiment, cluster: AmlCompute, tmp_path: Path
) -> None:
    estimator_of_the_docs = TensorflowConfiguration(worker_count=2)
    run = submit(experiment, tmp_path / "source", estimator_of_the_docs, SAYS_WHO_IT_IS + SERVES_FOR_EVER)
    run.wait_for_completion()
    tasks = {}
    for name in ("worker-0", "worker-1", "ps-0"):
        found = json.loads(variables(run, f"azureml-logs/70_driver_log-{name}.txt")["TF_CONFIG"])
        tasks[name] = (found["task"]["type"], found["task"]["index"], found["environment"])
    assert tasks == {"worker-0": ("worker", 0, "cloud"), "worker-1": ("worker", 1, "cloud"), "ps-0": ("ps", 0, "cloud")}


def test_a_rank_that_fails_is_named(experiment: Experiment, cluster: AmlCompute, tmp_path: Path) -> None:
    run = submit(experiment, tmp_path / "source", PyTorchConfiguration("Gloo", 2, 2), SECOND_FAILS)
    with pytest.raises(ActivityFailedException, match="rank 1") as raised:
        run.wait_for_completion()
    assert "the second gives up" in str(raised.value)


@pytest.mark.needs("mpi")
def test_nodes_are_seen_while_a_run_holds_them(experiment: Experiment, cluster: AmlCompute, tmp_path: Path) -> None:
    waits = "import os, time\nwhile not os.path.exists({!r}):\n    time.sleep(0.05)\n"
    run = submit(experiment, tmp_path / "source", MpiConfiguration(1, 2), waits.format(str(tmp_path / "go")))
    try:
        while run.get_status() not in ("Running", "Failed"):
            run._client.get(run._path + "/wait", version=run._record["version"], timeout=10)
        status = cluster.get_status()
        assert (status.current_node_count, status.node_state_counts.running_node_count) == (2, 2)
        assert {node["runId"] for node in cluster.list_nodes()} == {run.id}
        assert [one.id for one in cluster.get_active_runs()] == [run.id]
    finally:
        (tmp_path / "go").touch()
    run.wait_for_completion()
    assert cluster.get_status().node_state_counts.idle_node_count == 2


def test_more_than_the_target_has_is_refused_with_the_numbers(
    experiment: Experiment, cluster: AmlCompute, tmp_path: Path
) -> None:
    with pytest.raises(UserErrorException, match=r"node_count must be at most 2 on 'two', got 3"):
        submit(experiment, tmp_path / "source", MpiConfiguration(1, 3), SAYS_WHO_IT_IS)
    settings = {"entry_script": "train.py", "compute_target": "two", "distributed_backend": "ps"}
    too_many = TensorFlow(str(tmp_path / "source"), node_count=1, worker_count=2, **settings)
    with pytest.raises(UserErrorException, match="worker_count must be at most 1 with node_count=1"):
        experiment.submit(too_many)
    with pytest.raises(TrainingException, match="needs a cluster"):
        TensorFlow(str(tmp_path / "source"), node_count=2, **{**settings, "compute_target": "local"})
