from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from runyard.compute.ray.cluster_client import RayCluster
from runyard.compute.ray.cluster_state import (
    ClusterState,
    RayAllocation,
    RayNode,
    bundle_of,
    check_allocation,
    words_for,
)
from runyard.compute.ray.names import AllocationName
from runyard.compute.remote.nodes import Placements
from runyard.compute.vm_sizes import NodeResources
from runyard.core.definitions.run import RunDefinition
from runyard.core.errors import EngineError
from runyard.core.ports.clock import Clock
from runyard.core.records.assets import Asset
from runyard.core.records.nodes import DEFAULT_IDLE_SECONDS, Node, NodeAllocation, NodeState
from runyard.core.records.runs import RunId, RunRecord

_DEFAULT_MOST = 1000
_FIRST_CONNECTION_SECONDS = 5.0


class RayPool:
    """Nodes that Ray gives to runs: one placement group for each run, which Ray keeps, found by its name."""

    def __init__(
        self,
        cluster: RayCluster,
        service: str,
        clock: Clock,
        placements: Placements,
        sizes: Mapping[str, NodeResources],
    ) -> None:
        self._ray, self._service, self._clock = cluster, service, clock
        self._placements, self._sizes = placements, sizes
        self._used_at: dict[str, datetime] = {}
        self._since: dict[tuple[str, str], datetime] = {}

    def check(self, cluster: Asset, definition: RunDefinition) -> None:
        bundle = self._bundle(cluster)
        try:
            state = self._ray.state(patience_seconds=_FIRST_CONNECTION_SECONDS)
        except EngineError:
            return  # the run waits until the cluster answers
        check_allocation(definition.node_count, bundle, state)

    def hold(self, cluster: Asset, run: RunRecord) -> NodeAllocation:
        most, needed, bundle = most_nodes(cluster), run.definition.node_count, self._bundle(cluster)
        try:
            state = self._ray.state()
            allocation = state.allocation_of(run.id)
            if allocation is None or not allocation.is_ready:
                taken = sum(
                    len(other.node_ids) for other in _allocations_of(state, cluster) if other.name.run_id != run.id
                )
                if taken + needed > most:
                    return NodeAllocation(
                        most_nodes=most, waits_for=_waits_for_others(cluster, state, needed, most - taken)
                    )
                allocation = self._ray.request_allocation(self._name(cluster, run.id), bundle, needed)
                state = self._ray.refresh()
        except EngineError as e:
            return NodeAllocation(most_nodes=most, waits_for=f"Waiting for '{cluster.name}': {e.problem}")
        if allocation is None or not allocation.is_ready:
            return NodeAllocation(most_nodes=most, waits_for=_waits_for_ray(cluster, state, needed, bundle))
        return NodeAllocation(self._nodes_of(cluster, state, allocation), most)

    def held_by(self, cluster: Asset, run: RunRecord) -> NodeAllocation:
        state = self._ray.state()
        allocation = state.allocation_of(run.id)
        nodes = self._nodes_of(cluster, state, allocation) if allocation is not None and allocation.is_ready else ()
        return NodeAllocation(nodes, most_nodes(cluster))

    def release(self, run_id: RunId) -> None:
        allocation = self._ray.refresh().allocation_of(run_id)
        if allocation is not None:
            self._ray.release_allocation(allocation.name)

    def resize(self, clusters: Sequence[Asset], living: set[RunId]) -> None:
        """Release what ended runs hold, and request the minimum of nodes. Does nothing while the cluster is away."""
        self._placements.forget_others(living)
        try:
            state = self._ray.state()
            for allocation in state.allocations:
                if RunId(allocation.name.run_id) not in living:
                    self._ray.release_allocation(allocation.name)
            self._ray.request_minimum([self._bundle(each) for each in clusters for _ in range(least_nodes(each))])
            self._end_idle_agents(clusters, state, living)
        except EngineError:
            return

    def gpus_promised(self, cluster: Asset) -> int | None:
        return int(self._bundle(cluster).get("GPU", 0))

    def list(self, cluster: Asset) -> Sequence[Node]:
        """Nodes that runs hold or wait for, then free ones that are large enough, up to the cluster's maximum."""
        try:
            state = self._ray.state()
        except EngineError:
            return []
        bundle, most = self._bundle(cluster), most_nodes(cluster)
        held = [
            node
            for allocation in _allocations_of(state, cluster)
            for node in self._nodes_of(cluster, state, allocation)
        ]
        taken = {node_id for allocation in state.allocations for node_id in allocation.node_ids}
        free = [node for node in state.nodes if node.id not in taken and not node.is_head and _may_serve(node, bundle)]
        return [*held, *(self._idle(cluster, node) for node in free[: max(0, most - len(held))])]

    def _bundle(self, cluster: Asset) -> dict[str, float]:
        return bundle_of(cluster.body, self._sizes)

    def _name(self, cluster: Asset, run_id: str) -> AllocationName:
        return AllocationName(self._service, cluster.workspace, cluster.name, run_id)

    def _nodes_of(self, cluster: Asset, state: ClusterState, allocation: RayAllocation) -> tuple[Node, ...]:
        """Nodes in the order of the allocation's bundles. One that is not there yet, or is gone, has no address."""
        found = []
        for index, node_id in enumerate(allocation.node_ids):
            node = state.node(node_id)
            found.append(
                Node(
                    cluster.workspace,
                    cluster.name,
                    node_name(node, state) if node else f"{cluster.name}-{index}",
                    node.address if node else "",
                    _state_in(allocation, node),
                    self._known_since(allocation.name.run_id, f"{index}:{node_id}"),
                    allocation.name.run_id,
                    gpus=allocation.gpus[index] if allocation.gpus else (),
                )
            )
        return tuple(found)

    def _idle(self, cluster: Asset, node: RayNode) -> Node:
        state = NodeState.LEAVING if node.is_leaving else NodeState.IDLE
        since = self._known_since("", node.id)
        return Node(cluster.workspace, cluster.name, node.name, node.address, state, since)

    def _known_since(self, run_id: str, place: str) -> datetime:
        return self._since.setdefault((run_id, place), self._clock.now())

    def _end_idle_agents(self, clusters: Sequence[Asset], state: ClusterState, living: set[RunId]) -> None:
        """End the agents of idle nodes: a warm agent keeps Ray's autoscaler from removing its node."""
        if state.autoscales is False:
            return
        now = self._clock.now()
        held = {node_id for allocation in state.allocations for node_id in allocation.node_ids}
        busy = held | self._placements.busy_nodes(living)
        self._used_at.update(dict.fromkeys(busy, now))
        limit = min((idle_seconds(cluster) for cluster in clusters), default=0.0)
        for node in state.nodes:
            used_at = self._used_at.setdefault(node.id, now)
            if not node.is_alive or now - used_at < timedelta(seconds=limit):
                continue
            if self._ray.end_agent(node):
                self._used_at[node.id] = now


def most_nodes(cluster: Asset) -> int:
    most = cluster.body.get("max_nodes")
    return _DEFAULT_MOST if most is None else int(most)


def least_nodes(cluster: Asset) -> int:
    return min(int(cluster.body.get("min_nodes") or 0), most_nodes(cluster))


def idle_seconds(cluster: Asset) -> float:
    seconds = cluster.body.get("idle_seconds_before_scaledown")
    return float(DEFAULT_IDLE_SECONDS if seconds is None else seconds)


def node_name(node: RayNode, state: ClusterState) -> str:
    """Ray's name of the node, with the start of its id where two nodes have the same name."""
    same = [other for other in state.nodes if other.name == node.name and other.is_alive]
    return node.name if len(same) < 2 else f"{node.name}-{node.id[:6]}"


def _may_serve(node: RayNode, bundle: Mapping[str, float]) -> bool:
    return node.is_alive and (node.is_leaving or node.fits(bundle))


def _allocations_of(state: ClusterState, cluster: Asset) -> list[RayAllocation]:
    place = (cluster.workspace, cluster.name)
    return [each for each in state.allocations if (each.name.workspace, each.name.cluster) == place]


def _state_in(allocation: RayAllocation, node: RayNode | None) -> NodeState:
    if node is None or not allocation.is_ready:
        return NodeState.UNUSABLE if node is not None and not node.is_alive else NodeState.PREPARING
    if not node.is_alive:
        return NodeState.UNUSABLE
    return NodeState.LEAVING if node.is_leaving else NodeState.RUNNING


def _waits_for_others(cluster: Asset, state: ClusterState, needed: int, free: int) -> str:
    runs = sorted({allocation.name.run_id for allocation in _allocations_of(state, cluster)})
    listed = ", ".join(runs[:3]) + (", ..." if len(runs) > 3 else "")
    words = f"Waiting for {_nodes(needed)} of '{cluster.name}': {max(0, free)} of its {most_nodes(cluster)} free"
    return f"{words}, others held by {listed}."


def _waits_for_ray(cluster: Asset, state: ClusterState, needed: int, bundle: Mapping[str, float]) -> str:
    large_enough = sum(1 for node in state.nodes if node.fits(bundle))
    words = f"Waiting for Ray to give {_nodes(needed)} of '{cluster.name}' with {words_for(bundle)} each"
    return f"{words}: {large_enough} of the nodes that are there now are large enough, and some of those are taken."


def _nodes(count: int) -> str:
    return f"{count} node{'s' if count != 1 else ''}"
