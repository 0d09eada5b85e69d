import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from runyard.core.data_plan import is_settable_variable
from runyard.core.definitions.run import RunDefinition
from runyard.core.definitions.run_data import LINK
from runyard.core.records.assets import Workspace
from runyard.core.records.runs import RunRecord
from runyard.core.submitter_variables import submitter_variables

_PROXIES = frozenset({"http_proxy", "https_proxy", "all_proxy", "grpc_proxy"})
_TOKEN_LIFE_SECONDS = 30 * 24 * 3600


@dataclass(frozen=True)
class RunContext:
    """Workspace and experiment of a run, and how its script reaches the service."""

    workspace: Workspace
    experiment_id: str
    url: str
    run_token: str


def platform_variables(run: RunRecord, context: RunContext) -> dict[str, str]:
    """Environment variables that tell a script which run it is."""
    definition = run.definition
    expiry = int(run.created_at.timestamp()) + _TOKEN_LIFE_SECONDS
    return {
        "AZUREML_RUN_ID": run.id,
        "AZUREML_ARM_SUBSCRIPTION": context.workspace.subscription_id,
        "AZUREML_ARM_RESOURCEGROUP": context.workspace.resource_group,
        "AZUREML_ARM_WORKSPACE_NAME": context.workspace.name,
        "AZUREML_ARM_PROJECT_NAME": run.experiment,
        "AZUREML_RUN_TOKEN": context.run_token,
        "AZUREML_RUN_TOKEN_EXPIRY": str(expiry),
        "AZUREML_SERVICE_ENDPOINT": context.url,
        "AZUREML_DISCOVERY_SERVICE_ENDPOINT": f"{context.url}/discovery",
        "AZUREML_EXPERIMENT_ID": context.experiment_id,
        "AZUREML_WORKSPACE_ID": context.workspace.id,
        "AZUREML_FRAMEWORK": definition.framework,
        "AZUREML_COMMUNICATOR": definition.communicator,
        "AZUREML_TARGET_TYPE": "local" if run.target == "local" else "batchai",
        "RUNYARD_URL": context.url,
        "PYTHONUNBUFFERED": "1",
        **_data_variables(definition),
    }


def gpu_variables(gpus: Sequence[str]) -> dict[str, str]:
    """All processes of a node see all of its GPUs, and choose one by their local rank."""
    return {"CUDA_VISIBLE_DEVICES": ",".join(gpus)}


def loopback_variables(addresses: Sequence[str]) -> dict[str, str]:
    """Make nodes on one machine use the loopback interface, whatever interface the submitter named."""
    if not is_loopback(addresses):
        return {}
    return {
        "GLOO_SOCKET_IFNAME": "lo",
        "NCCL_SOCKET_IFNAME": "lo",
        "NCCL_IB_DISABLE": "1",
        "TP_SOCKET_IFNAME": "lo",
    }


def no_proxy_variables(definition: RunDefinition, addresses: Sequence[str]) -> dict[str, str]:
    """Exclude the addresses of the run from the submitter's proxies: gRPC, and so TensorFlow, would use a proxy between
    the processes of a run."""
    given = {**submitter_variables(definition), **definition.environment.variables}
    if not any(name.lower() in _PROXIES for name in given):
        return {}
    excluded = {
        "no_proxy": given.get("no_proxy") or given.get("NO_PROXY", ""),
        "NO_PROXY": given.get("NO_PROXY") or given.get("no_proxy", ""),
    }
    if given.get("no_grpc_proxy"):  # If set, gRPC ignores the others.
        excluded["no_grpc_proxy"] = given["no_grpc_proxy"]
    # "*" excludes everything, but only alone.
    return {
        name: value if value.strip() == "*" else ",".join(filter(None, (value, *dict.fromkeys(addresses))))
        for name, value in excluded.items()
    }


def is_loopback(addresses: Sequence[str]) -> bool:
    """Whether all addresses are loopback addresses."""
    try:
        return all(ipaddress.ip_address(address).is_loopback for address in addresses)
    except ValueError:
        return False


def _data_variables(definition: RunDefinition) -> dict[str, str]:
    """Variables from which the script's SDK reads its inputs and outputs; the node sets their paths."""
    inputs, outputs = definition.data, definition.outputs
    variables = {
        name: one.dataset_id for name, one in inputs.items() if one.mode == "direct" and is_settable_variable(name)
    }
    if inputs:
        modes = (f"{name}:{one.mode}" for name, one in inputs.items())
        variables["AZUREML_DATASET_ENVIRONMENT_VARS"] = ",".join(modes)
    links = [name for name, one in outputs.items() if one.mode == LINK]
    for variable, names in (
        ("AZUREML_DATASET_FILE_OUTPUTS", [name for name in outputs if name not in links]),
        ("AZUREML_LINK_DATASET_OUTPUTS", links),
    ):
        if names:
            variables[variable] = ";".join(names)
    return variables
