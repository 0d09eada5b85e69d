"""Number and kind of processes in a run definition, for definitions of all versions of SDK v1."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from runyard.core.definitions.fields import shown
from runyard.core.definitions.run import RunDefinition
from runyard.core.errors import InvalidArgument

CHIEF_VARIABLE = "RUNYARD_TF_CHIEF"
MOST_PROCESSES_PER_NODE = 256
_MOST_TASKS = 500
"""For parameter servers, where each task gets the addresses of all."""


class DistributionKind(StrEnum):
    SINGLE = "single"
    MPI = "mpi"
    PARAMETER_SERVER = "parameter_server"
    TORCH = "torch"


_KINDS: Mapping[str, DistributionKind] = {
    "none": DistributionKind.SINGLE,
    "mpi": DistributionKind.MPI,
    "intelmpi": DistributionKind.MPI,
    "openmpi": DistributionKind.MPI,
    "parameterserver": DistributionKind.PARAMETER_SERVER,
    "gloo": DistributionKind.TORCH,
    "nccl": DistributionKind.TORCH,
}


@dataclass(frozen=True)
class Distribution:
    kind: DistributionKind
    node_count: int = 1
    per_node: int = 1
    """MPI: ranks on each node."""
    workers: int = 0
    servers: int = 0
    """Parameter servers: tasks of each sort on all nodes together."""
    has_chief: bool | None = None
    """Whether worker 0 is the chief; None if the version of TensorFlow decides."""
    process_count: int | None = None
    """torch: processes on all nodes together; None if it follows from the nodes."""


def distribution_of(definition: RunDefinition) -> Distribution:
    """Read the distribution. Raises InvalidArgument that names the wrong argument."""
    kind = distribution_kind(definition)
    nodes = definition.node_count
    if kind is DistributionKind.MPI:
        return Distribution(kind, nodes, per_node=_per_node(definition))
    if kind is DistributionKind.PARAMETER_SERVER:
        return _parameter_server(definition, nodes)
    if kind is DistributionKind.TORCH:
        return Distribution(kind, nodes, process_count=_process_count(definition, nodes))
    if nodes > 1:
        raise InvalidArgument(
            f"node_count={nodes} without a distributed backend: nothing says how the nodes work together.",
            hint="Give distributed_training (for example MpiConfiguration() or TensorflowConfiguration()), "
            "distributed_job_config, or node_count=1.",
        )
    return Distribution(kind)


def distribution_kind(definition: RunDefinition) -> DistributionKind:
    try:
        return _KINDS[definition.communicator.lower()]
    except KeyError:
        raise InvalidArgument(
            f"communicator {definition.communicator!r} is unknown.",
            hint="Known: None, Mpi, IntelMpi, OpenMpi, ParameterServer, Gloo and Nccl.",
        ) from None


def _parameter_server(definition: RunDefinition, nodes: int) -> Distribution:
    counts, each = definition.process_counts, _per_node(definition)
    workers = 1 if counts.workers is None else counts.workers
    servers = 1 if counts.parameter_servers is None else counts.parameter_servers
    if workers > nodes * each:
        a_node = "one worker" if each == 1 else f"process_count_per_node={each} workers"
        raise InvalidArgument(
            f"worker_count must be at most {nodes * each} with node_count={nodes} ({a_node} a node), "
            f"got {shown(workers)}.",
            hint=f"Give node_count={shown(-(-workers // each))}, or fewer workers.",
        )
    _check_count("parameter_server_count", servers, nodes)
    if workers + servers > _MOST_TASKS:
        raise InvalidArgument(
            f"worker_count and parameter_server_count must be at most {_MOST_TASKS} together, "
            f"got {workers} and {servers}."
        )
    return Distribution(DistributionKind.PARAMETER_SERVER, nodes, each, workers, servers, _has_chief(definition))


def _has_chief(definition: RunDefinition) -> bool | None:
    value = definition.environment.variables.get(CHIEF_VARIABLE, "").strip()
    if value not in ("", "0", "1"):
        raise InvalidArgument(
            f"{CHIEF_VARIABLE} must be 1 (worker 0 is called chief) or 0 (it is not), got {value[:40]!r}.",
            hint="It is one of the run's environment_variables.",
        )
    return value == "1" if value else None


def _process_count(definition: RunDefinition, nodes: int) -> int | None:
    count = definition.process_counts.torch_processes
    if count is None:
        return None
    if count < nodes:
        raise InvalidArgument(
            f"process_count must be at least node_count ({nodes}), so that every node has a process; got {count}.",
            hint="It counts the processes of all nodes together.",
        )
    _check_count("process_count", count, nodes)
    return count


def _per_node(definition: RunDefinition) -> int:
    count = 1 if definition.process_counts.per_node is None else definition.process_counts.per_node
    _check_count("process_count_per_node", count, 1)
    return count


def _check_count(argument: str, count: int, nodes: int) -> None:
    most = nodes * MOST_PROCESSES_PER_NODE
    if count > most:
        on = f" on {nodes} nodes" if nodes > 1 else ""
        raise InvalidArgument(
            f"{argument} must be at most {most}{on}, got {shown(count)}.",
            hint=f"No node runs more than {MOST_PROCESSES_PER_NODE} processes of one run.",
        )
