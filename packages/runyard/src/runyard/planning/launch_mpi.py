"""Open MPI: one mpirun on node 0, which has the other nodes' supervisors start its daemons, and those the ranks."""

import ipaddress
from collections.abc import Mapping

from runyard.core.definitions.run import RunDefinition
from runyard.model.plan import NodePlan, PortWish, ProcessSpec
from runyard.planning.distribution import Distribution, distribution_of
from runyard.planning.launch_single import command_of
from runyard.planning.resources import Resources
from runyard.planning.variables import direct_variables, gpu_variables, is_loopback, loopback_variables

MASTER_PORT = 6105
# mpirun gives all nodes the same words, but each has its own interpreter and files: they are in its variables.
# Isolated and without site packages: the script's folder and variables must not reach the few lines before it.
_RANK_STARTER = (
    "/bin/sh",
    "-c",
    'exec "$RUNYARD_RANK_PYTHON" -I -S -E "$RUNYARD_RANK_STARTER" "$@"',
    "{rank_starter}",
)
_ALLOW_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def mpi_layout(definition: RunDefinition, found: Resources) -> tuple[NodePlan, ...]:
    """Ranks 0 to K-1 are on node 0, the next K on node 1, and so on."""
    asked = distribution_of(definition)
    return tuple(_node(definition, found, asked, node) for node in range(asked.node_count))


def _node(definition: RunDefinition, found: Resources, asked: Distribution, node: int) -> NodePlan:
    gpus = found.gpus_of(node)
    variables = {
        **_sharing_variables(found.addresses),
        **definition.environment.variables,
        **direct_variables(definition, found.addresses),
        **gpu_variables(gpus),
        **loopback_variables(found.addresses),
        **_master_variables(found, asked),
        **_ALLOW_ROOT,
    }
    launcher = ProcessSpec(
        rank=0,
        command=(*_mpirun(found, asked), *_RANK_STARTER, *command_of(definition)),
        env=variables,
        log=f"azureml-logs/55_azureml-execution-{found.name_of(0)}.txt",
        role="launcher",
    )
    return NodePlan(
        address=found.addresses[node],
        processes=(launcher,) if node == 0 else (),
        gpus=gpus,
        name=found.name_of(node),
        ports=(PortWish("master", MASTER_PORT),) if node == 0 else (),
        ranks=tuple(range(node * asked.per_node, (node + 1) * asked.per_node)),
        env=variables,
    )


def _sharing_variables(addresses: tuple[str, ...]) -> dict[str, str]:
    """Nodes of one machine share its cores, of which mpirun knows nothing: a rank that waits for another shall not keep
    a core from it. Four ranks on two busy cores: 9 ms an allreduce instead of 42."""
    return {"OMPI_MCA_mpi_yield_when_idle": "1"} if len(addresses) > 1 and is_loopback(addresses) else {}


def _mpirun(found: Resources, asked: Distribution) -> tuple[str, ...]:
    # Ranks are not bound to cores: they have threads of their own, and the machine may be shared by several nodes.
    words = ["{mpirun}", "-np", str(asked.node_count * asked.per_node), "--map-by", "slot", "--bind-to", "none"]
    # Without its own folders in front of the ranks' PATH and LD_LIBRARY_PATH.
    words += ["--oversubscribe", "--noprefix"]
    if asked.node_count == 1:
        return (*words, *_settings({"oob_tcp_if_include": "lo", "btl_tcp_if_include": "lo"}))
    words += ["--hostfile", "{host_file}", "--leave-session-attached"]
    rsh = {"plm": "rsh", "plm_rsh_agent": "{rsh_agent}", "plm_rsh_no_tree_spawn": "1"}
    return (*words, *_settings({**rsh, **_network(found.addresses)}))


def _settings(settings: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(word for name, value in settings.items() for word in ("--mca", name, value))


def _network(addresses: tuple[str, ...]) -> dict[str, str]:
    """Which interfaces the nodes reach one another by. Nodes of one machine have no shared memory in common."""
    if is_loopback(addresses):
        return {"oob_tcp_if_include": "lo", "btl": "tcp,self", "btl_tcp_if_include": "lo"}
    network = _smallest_network(addresses)
    return {"oob_tcp_if_include": network, "btl_tcp_if_include": network} if network else {}


def _smallest_network(addresses: tuple[str, ...]) -> str:
    """The smallest one that holds all of them, as Open MPI takes it; "" where they have nothing in common."""
    try:
        numbers = [int(ipaddress.IPv4Address(address)) for address in addresses]
    except ValueError:
        return ""
    bits = max(one ^ numbers[0] for one in numbers).bit_length()
    if bits >= 32:
        return ""
    return f"{ipaddress.IPv4Address(numbers[0] >> bits << bits)}/{32 - bits}"


def _master_variables(found: Resources, asked: Distribution) -> dict[str, str]:
    """By which scripts find rank 0's node, when they make a torch process group among the ranks for example."""
    master = found.addresses[0]
    variables = {
        "AZ_BATCHAI_MPI_MASTER_NODE": master,
        "AZ_BATCHAI_MPI_HOST_FILE": "{host_file}",
        "MASTER_PORT": "<port:0:master>",
    }
    if asked.node_count > 1:
        variables["AZ_BATCH_MASTER_NODE"] = f"{master}:<port:0:master>"
    return variables
