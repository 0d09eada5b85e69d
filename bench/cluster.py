"""A cluster of loopback nodes, and runs on it."""

from typing import Any

from azureml.core import ScriptRunConfig
from azureml.core.compute import AmlCompute, ComputeTarget
from bench.home import Home

NAME = "nodes"


def make_cluster(home: Home, nodes: int) -> None:
    shape = AmlCompute.provisioning_configuration(vm_size="STANDARD_D2_V2", min_nodes=nodes, max_nodes=nodes)
    ComputeTarget.create(home.workspace, NAME, shape).wait_for_completion()


def over_mpi(config: ScriptRunConfig, nodes: int, target: str = NAME) -> ScriptRunConfig:
    settings = config.run_config
    settings.target, settings.node_count = target, nodes
    settings.framework, settings.communicator = "Python", "OpenMpi"
    settings.mpi.process_count_per_node = 1
    return config


def rank_logs(run: Any, ranks: int) -> list[str]:
    """What each rank printed."""
    logs = run.get_details_with_logs()["logFiles"]
    return [logs[f"azureml-logs/70_driver_log_{rank}.txt"] for rank in range(ranks)]
