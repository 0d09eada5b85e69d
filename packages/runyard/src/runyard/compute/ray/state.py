from collections.abc import Mapping
from dataclasses import dataclass, field

from runyard.compute.ray.names import GangName, parse_gang
from runyard.compute.remote.placements import RemoteNode
from runyard.errors import Json


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
class RayGang:
    """The placement group of a run."""

    name: GangName
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
    allocations: tuple[RayGang, ...]
    autoscales: bool | None
    """Whether the cluster has an autoscaler; None if that is not known."""
    kinds: tuple[NodeKind, ...] = ()

    def node(self, node_id: str) -> RayNode | None:
        return next((node for node in self.nodes if node.id == node_id), None)

    def gang_of(self, run_id: str) -> RayGang | None:
        return next((allocation for allocation in self.allocations if allocation.name.run_id == run_id), None)


def fits(bundle: Mapping[str, float], resources: Mapping[str, float]) -> bool:
    return all(resources.get(name, 0.0) >= amount for name, amount in bundle.items() if amount > 0)


def state_from_json(body: Json) -> ClusterState:
    return ClusterState(
        nodes=tuple(RayNode(**node) for node in body["nodes"]),
        allocations=tuple(found for allocation in body["gangs"] if (found := gang_from_json(allocation)) is not None),
        autoscales=body["autoscales"],
        kinds=tuple(NodeKind(kind["name"], kind["resources"], int(kind["max"])) for kind in body["kinds"]),
    )


def gang_from_json(body: Json) -> RayGang | None:
    name = parse_gang(body["name"])
    if name is None:
        return None
    gpus = None if body["gpus"] is None else tuple(tuple(ids) for ids in body["gpus"])
    return RayGang(name, body["state"], tuple(body["nodes"]), gpus)
