"""Open MPI: one mpirun on node 0. Through the supervisors of the other nodes it starts daemons, which start ranks."""

import ipaddress
from collections.abc import Mapping

from runyard.core.definitions.run import RunDefinition
from runyard.core.records.launch_plan import NodePlan, PortRequest, ProcessSpec
from runyard.runs.launch.distribution import Distribution, distribution_of
from runyard.runs.launch.layout import AttemptResources, command_of
from runyard.runs.launch.variables import gpu_variables, is_loopback, loopback_variables, no_proxy_variables

MASTER_PORT = 6105
# mpirun gives all nodes the same command, but each has its own interpreter and files: variables name them.
# -I -S -E: the script's folder and variables must not affect the starter that runs before the script.
_RANK_STARTER = (
    "/bin/sh",
    "-c",
    'exec "$RUNYARD_RANK_PYTHON" -I -S -E "$RUNYARD_RANK_STARTER" "$@"',
    "{rank_starter}",
)
_ALLOW_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def mpi_layout(definition: RunDefinition, resources: AttemptResources) -> tuple[NodePlan, ...]:
    """Node plans: ranks 0 to K-1 on node 0, the next K on node 1, and so on."""
    distribution = distribution_of(definition)
    return tuple(_node(definition, resources, distribution, node) for node in range(distribution.node_count))


def _node(definition: RunDefinition, resources: AttemptResources, distribution: Distribution, node: int) -> NodePlan:
    gpus = resources.gpus_of(node)
    variables = {
        **_sharing_variables(resources.addresses),
        **definition.environment.variables,
        **no_proxy_variables(definition, resources.addresses),
        **gpu_variables(gpus),
        **loopback_variables(resources.addresses),
        **_master_variables(resources, distribution),
        **_ALLOW_ROOT,
    }
    launcher = ProcessSpec(
        rank=0,
        command=(*_mpirun(resources, distribution), *_RANK_STARTER, *command_of(definition)),
        env=variables,
        log=f"azureml-logs/55_azureml-execution-{resources.name_of(0)}.txt",
        role="launcher",
    )
    return NodePlan(
        address=resources.addresses[node],
        processes=(launcher,) if node == 0 else (),
        gpus=gpus,
        name=resources.name_of(node),
        ports=(PortRequest("master", MASTER_PORT),) if node == 0 else (),
        ranks=tuple(range(node * distribution.per_node, (node + 1) * distribution.per_node)),
        env=variables,
    )


def _sharing_variables(addresses: tuple[str, ...]) -> dict[str, str]:
    """Nodes on one machine share its cores, which mpirun does not know: a waiting rank must yield its core. Four ranks
    on two busy cores: 9 ms for an allreduce instead of 42."""
    return {"OMPI_MCA_mpi_yield_when_idle": "1"} if len(addresses) > 1 and is_loopback(addresses) else {}


def _mpirun(resources: AttemptResources, distribution: Distribution) -> tuple[str, ...]:
    # No binding to cores: ranks have threads of their own, and several nodes may share the machine.
    ranks = distribution.node_count * distribution.per_node
    words = ["{mpirun}", "-np", str(ranks), "--map-by", "slot", "--bind-to", "none"]
    # --noprefix: mpirun must not put its own folders in front of the ranks' PATH and LD_LIBRARY_PATH.
    words += ["--oversubscribe", "--noprefix"]
    if distribution.node_count == 1:
        return (*words, *_settings({"oob_tcp_if_include": "lo", "btl_tcp_if_include": "lo"}))
    words += ["--hostfile", "{host_file}", "--leave-session-attached"]
    rsh = {"plm": "rsh", "plm_rsh_agent": "{rsh_agent}", "plm_rsh_no_tree_spawn": "1"}
    return (*words, *_settings({**rsh, **_network(resources.addresses)}))


def _settings(settings: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(word for name, value in settings.items() for word in ("--mca", name, value))


def _network(addresses: tuple[str, ...]) -> dict[str, str]:
    """Network interfaces between the nodes. Nodes on one machine do not use shared memory."""
    if is_loopback(addresses):
        return {"oob_tcp_if_include": "lo", "btl": "tcp,self", "btl_tcp_if_include": "lo"}
    network = _smallest_network(addresses)
    return {"oob_tcp_if_include": network, "btl_tcp_if_include": network} if network else {}


def _smallest_network(addresses: tuple[str, ...]) -> str:
    """Smallest network that holds all addresses, as Open MPI takes it; "" if there is none."""
    try:
        numbers = [int(ipaddress.IPv4Address(address)) for address in addresses]
    except ValueError:
        return ""
    bits = max(one ^ numbers[0] for one in numbers).bit_length()
    if bits >= 32:
        return ""
    return f"{ipaddress.IPv4Address(numbers[0] >> bits << bits)}/{32 - bits}"


def _master_variables(resources: AttemptResources, distribution: Distribution) -> dict[str, str]:
    """Variables by which scripts find the node of rank 0, for example to make a torch process group."""
    master = resources.addresses[0]
    variables = {
        "AZ_BATCHAI_MPI_MASTER_NODE": master,
        "AZ_BATCHAI_MPI_HOST_FILE": "{host_file}",
        "MASTER_PORT": "<port:0:master>",
    }
    if distribution.node_count > 1:
        variables["AZ_BATCH_MASTER_NODE"] = f"{master}:<port:0:master>"
    return variables
