from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from runyard.compute.ray.names import AllocationName, parse_allocation_name
from runyard.compute.remote.nodes import RemoteNode
from runyard.compute.vm_sizes import NodeResources, node_resources
from runyard.core.errors import InvalidArgument, Json


@dataclass(frozen=True)
class RayNode(RemoteNode):
    is_alive: bool
    is_leaving: bool = False
    is_head: bool = False
    resources: Mapping[str, float] = field(default_factory=dict)
    why: str = ""
    """Ray's reason why a dead node died."""

    def fits(self, bundle: Mapping[str, float]) -> bool:
        return self.is_alive and not self.is_leaving and fits(bundle, self.resources)


@dataclass(frozen=True)
class RayAllocation:
    """The placement group of a run."""

    name: AllocationName
    state: str
    node_ids: tuple[str, ...]
    gpus: tuple[tuple[str, ...], ...] | None
    """GPU ids by bundle; None while they are not known yet."""

    @property
    def is_ready(self) -> bool:
        return self.state == "CREATED" and all(self.node_ids) and self.gpus is not None


@dataclass(frozen=True)
class NodeKind:
    """A type of node that the autoscaler can start."""

    name: str
    resources: Mapping[str, float]
    most: int


@dataclass(frozen=True)
class ClusterState:
    nodes: tuple[RayNode, ...]
    allocations: tuple[RayAllocation, ...]
    autoscales: bool | None
    """Whether the cluster has an autoscaler; None if that is not known."""
    kinds: tuple[NodeKind, ...] = ()

    def node(self, node_id: str) -> RayNode | None:
        return next((node for node in self.nodes if node.id == node_id), None)

    def allocation_of(self, run_id: str) -> RayAllocation | None:
        return next((allocation for allocation in self.allocations if allocation.name.run_id == run_id), None)


def fits(bundle: Mapping[str, float], resources: Mapping[str, float]) -> bool:
    return all(resources.get(name, 0.0) >= amount for name, amount in bundle.items() if amount > 0)


def state_from_json(body: Json) -> ClusterState:
    # "gangs" is the name in the messages of the bridge.
    return ClusterState(
        nodes=tuple(RayNode(**node) for node in body["nodes"]),
        allocations=tuple(
            found for allocation in body["gangs"] if (found := allocation_from_json(allocation)) is not None
        ),
        autoscales=body["autoscales"],
        kinds=tuple(NodeKind(kind["name"], kind["resources"], int(kind["max"])) for kind in body["kinds"]),
    )


def allocation_from_json(body: Json) -> RayAllocation | None:
    name = parse_allocation_name(body["name"])
    if name is None:
        return None
    gpus = None if body["gpus"] is None else tuple(tuple(ids) for ids in body["gpus"])
    return RayAllocation(name, body["state"], tuple(body["nodes"]), gpus)


_GB = 1024**3
_OURS = {"cpu": "CPU", "gpu": "GPU", "memory_gb": "memory"}


def bundle_of(body: Mapping[str, Any], sizes: Mapping[str, NodeResources]) -> dict[str, float]:
    """Ray resources of one node of a compute target: its `resources`, else those of its `vm_size`, else one CPU."""
    given = {name: amount for name, amount in (body.get("resources") or {}).items() if amount is not None}
    if not given and body.get("vm_size"):
        size = node_resources(str(body["vm_size"]), sizes)
        given = {"cpu": size.cpu, "gpu": size.gpu, "memory_gb": size.memory_gb}
    bundle = {_OURS.get(name, name): _amount(name, amount) for name, amount in given.items()}
    found = {name: amount for name, amount in bundle.items() if amount > 0}
    return found or {"CPU": 1.0}


def _amount(name: str, amount: Any) -> float:
    try:
        value = float(amount)
    except (TypeError, ValueError):
        value = -1.0
    if not 0 <= value < float("inf") or isinstance(amount, bool):
        raise InvalidArgument(f"resources[{name!r}] must be a number of at least 0, got {amount!r}.")
    if name == "gpu" and value != int(value):
        raise InvalidArgument(f"resources['gpu'] must be a whole number, got {amount!r}: runs do not share a GPU.")
    return value * _GB if name == "memory_gb" else value


def words_for(bundle: Mapping[str, float]) -> str:
    """Resources as text: "6 CPU, 1 GPU, 56 GB"."""
    return ", ".join(
        f"{amount / _GB:.3g} GB" if name == "memory" else f"{amount:g} {name}" for name, amount in bundle.items()
    )


def check_allocation(count: int, bundle: Mapping[str, float], state: ClusterState) -> None:
    """Raise InvalidArgument, with the numbers, if the cluster can never give these nodes. Passes if not known."""
    here = [node for node in state.nodes if node.fits(bundle)]
    if state.autoscales is None or (state.autoscales and not state.kinds):
        return
    can_come = sum(kind.most for kind in state.kinds if fits(bundle, kind.resources))
    if max(len(here), can_come) >= count:
        return
    largest = [
        words_for({name: node.resources.get(name, 0.0) for name in bundle}) for node in state.nodes if node.is_alive
    ]
    largest += [
        f"{words_for({name: kind.resources.get(name, 0.0) for name in bundle})} ({kind.name})" for kind in state.kinds
    ]
    raise InvalidArgument(
        f"The run needs {count} node{'s' if count > 1 else ''} with {words_for(bundle)} each at the same time; the Ray "
        f"cluster can give {max(len(here), can_come)}. Its nodes have: {'; '.join(sorted(set(largest))) or 'nothing'}.",
        hint="Lower node_count, or the resources (vm_size) of the compute target, or add nodes to the Ray cluster.",
    )
