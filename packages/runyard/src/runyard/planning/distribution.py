"""How many processes a run definition asks for, and of which kind, whatever era of the SDK wrote it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from runyard.errors import InvalidArgument
from runyard.planning.variables import user_variables

CHIEF_VARIABLE = "RUNYARD_TF_CHIEF"
MOST_PROCESSES_PER_NODE = 256
MOST_NODES = 1_000
_MOST_TASKS = 500
"""Of a parameter-server run, where each task is told the addresses of all."""


class Kind(StrEnum):
    SINGLE = "single"
    MPI = "mpi"
    PARAMETER_SERVER = "parameter_server"
    TORCH = "torch"


_KINDS: Mapping[str, Kind] = {
    "none": Kind.SINGLE,
    "mpi": Kind.MPI,
    "intelmpi": Kind.MPI,
    "openmpi": Kind.MPI,
    "parameterserver": Kind.PARAMETER_SERVER,
    "gloo": Kind.TORCH,
    "nccl": Kind.TORCH,
}


@dataclass(frozen=True)
class Distribution:
    kind: Kind
    node_count: int = 1
    per_node: int = 1
    """Of MPI: ranks on every node."""
    workers: int = 0
    servers: int = 0
    """Of a parameter-server run: tasks of each sort over all nodes."""
    has_chief: bool | None = None
    """Whether worker 0 is called chief; None where the version of TensorFlow decides."""
    process_count: int | None = None
    """Of torch: processes over all nodes; None where that follows from the nodes."""


def distribution_of(definition: Mapping[str, Any]) -> Distribution:
    """What the definition asks for. InvalidArgument names the argument whose value cannot be right."""
    kind = kind_of(definition)
    nodes = node_count_of(definition)
    if kind is Kind.MPI:
        return Distribution(kind, nodes, per_node=_per_node(definition))
    if kind is Kind.PARAMETER_SERVER:
        return _parameter_server(definition, nodes)
    if kind is Kind.TORCH:
        return Distribution(kind, nodes, process_count=_process_count(definition, nodes))
    if nodes > 1:
        raise InvalidArgument(
            f"node_count={nodes} without a distributed backend: nothing says how the nodes work together.",
            hint="Give distributed_training (for example MpiConfiguration() or TensorflowConfiguration()), "
            "distributed_job_config, or node_count=1.",
        )
    return Distribution(kind)


def kind_of(definition: Mapping[str, Any]) -> Kind:
    communicator = str(definition.get("communicator") or "None")
    try:
        return _KINDS[communicator.lower()]
    except KeyError:
        raise InvalidArgument(
            f"communicator {communicator!r} is unknown.",
            hint="Known: None, Mpi, IntelMpi, OpenMpi, ParameterServer, Gloo and Nccl.",
        ) from None


def node_count_of(definition: Mapping[str, Any]) -> int:
    """InvalidArgument for one that no site could ever give: whoever has it may make something for each node."""
    count = _whole("node_count", definition.get("nodeCount", 1), at_least=1)
    if count > MOST_NODES:
        raise InvalidArgument(f"node_count must be at most {MOST_NODES}, got {ascii(count)[:80]}.")
    return count


def _parameter_server(definition: Mapping[str, Any], nodes: int) -> Distribution:
    section = _section(definition, "tensorflow")
    workers = _whole("worker_count", _given(section.get("workerCount"), 1), at_least=1)
    servers = _whole("parameter_server_count", _given(section.get("parameterServerCount"), 1), at_least=0)
    each = _per_node(definition)
    if workers > nodes * each:
        a_node = "one worker" if each == 1 else f"process_count_per_node={each} workers"
        raise InvalidArgument(
            f"worker_count must be at most {nodes * each} with node_count={nodes} ({a_node} a node), "
            f"got {ascii(workers)[:80]}.",
            hint=f"Give node_count={ascii(-(-workers // each))[:80]}, or fewer workers.",
        )
    _check_crowd("parameter_server_count", servers, nodes)
    if workers + servers > _MOST_TASKS:
        raise InvalidArgument(
            f"worker_count and parameter_server_count must be at most {_MOST_TASKS} together, "
            f"got {workers} and {servers}."
        )
    return Distribution(Kind.PARAMETER_SERVER, nodes, each, workers, servers, _chief_wish(definition))


def _chief_wish(definition: Mapping[str, Any]) -> bool | None:
    wish = user_variables(definition).get(CHIEF_VARIABLE, "").strip()
    if wish not in ("", "0", "1"):
        raise InvalidArgument(
            f"{CHIEF_VARIABLE} must be 1 (worker 0 is called chief) or 0 (it is not), got {wish[:40]!r}.",
            hint="It is one of the run's environment_variables.",
        )
    return wish == "1" if wish else None


def _process_count(definition: Mapping[str, Any], nodes: int) -> int | None:
    given = _section(definition, "pyTorch").get("processCount")
    if given is None:
        return None
    count = _whole("process_count", given, at_least=1)
    if count < nodes:
        raise InvalidArgument(
            f"process_count must be at least node_count ({nodes}), so that every node has a process; got {count}.",
            hint="It counts the processes of all nodes together.",
        )
    _check_crowd("process_count", count, nodes)
    return count


def _per_node(definition: Mapping[str, Any]) -> int:
    given = _given(_section(definition, "mpi").get("processCountPerNode"), 1)
    count = _whole("process_count_per_node", given, at_least=1)
    _check_crowd("process_count_per_node", count, 1)
    return count


def _check_crowd(argument: str, count: int, nodes: int) -> None:
    most = nodes * MOST_PROCESSES_PER_NODE
    if count > most:
        on = f" on {nodes} nodes" if nodes > 1 else ""
        raise InvalidArgument(
            f"{argument} must be at most {most}{on}, got {ascii(count)[:80]}.",
            hint=f"No node runs more than {MOST_PROCESSES_PER_NODE} processes of one run.",
        )


def _section(definition: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = definition.get(name) or {}
    if not isinstance(section, Mapping):
        raise InvalidArgument(f"The run definition's {name!r} must be an object, got {section!r}.")
    return section


def _given(value: Any, default: int) -> Any:
    return default if value is None else value


def _whole(argument: str, value: Any, *, at_least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < at_least:
        raise InvalidArgument(f"{argument} must be a whole number of at least {at_least}, got {ascii(value)[:80]}.")
    return value
