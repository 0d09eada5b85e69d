import zlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from runyard.core.definitions.run import RunDefinition
from runyard.core.ports.clock import Clock
from runyard.core.ports.stores import NodeStore
from runyard.core.records.assets import Asset
from runyard.core.records.nodes import DEFAULT_IDLE_SECONDS, Node, NodeAllocation, NodeState
from runyard.core.records.runs import RunId, RunRecord

_SLOTS_OF_A_NET = 250


class LocalPool:
    """Slots of this machine as nodes: made on demand, removed after an idle time."""

    def __init__(self, nodes: NodeStore, clock: Clock) -> None:
        self._nodes, self._clock = nodes, clock

    def check(self, cluster: Asset, definition: RunDefinition) -> None:
        pass

    def hold(self, cluster: Asset, run: RunRecord) -> NodeAllocation:
        most, needed = int(cluster.body["max_nodes"]), run.definition.node_count
        present = self.list(cluster)
        own = [node for node in present if node.run_id == run.id]
        free = [node for node in present if node.state is NodeState.IDLE]
        room = most - len(present)
        if len(own) + len(free) + room < needed:
            return NodeAllocation(waits_for=_waits_for(run, needed, len(free) + max(0, room), present))
        chosen = (own + free)[:needed]
        chosen = sorted([*chosen, *self._new(cluster, present, needed - len(chosen))], key=slot_of)
        held = tuple(replace(node, state=NodeState.RUNNING, run_id=run.id, since=self._clock.now()) for node in chosen)
        self._nodes.put(held)
        return NodeAllocation(held, most)

    def held_by(self, cluster: Asset, run: RunRecord) -> NodeAllocation:
        return NodeAllocation(
            tuple(node for node in self.list(cluster) if node.run_id == run.id), int(cluster.body["max_nodes"])
        )

    def release(self, run_id: RunId) -> None:
        self._nodes.release(run_id)

    def resize(self, clusters: Sequence[Asset], living: set[RunId]) -> None:
        for cluster in clusters:
            self._resize(cluster, living)

    def gpus_promised(self, cluster: Asset) -> int | None:
        return None  # runs share the GPUs of the machine

    def list(self, cluster: Asset) -> Sequence[Node]:
        return sorted(self._nodes.list(cluster.workspace, cluster.name), key=slot_of)

    def _resize(self, cluster: Asset, living: set[RunId]) -> None:
        present = self.list(cluster)
        for run_id in {RunId(node.run_id) for node in present if node.run_id} - living:
            self._nodes.release(run_id)
        least = int(cluster.body.get("min_nodes") or 0)
        idled = [node for node in present if node.state is NodeState.IDLE and self._has_idled(cluster, node)]
        leaving = idled[: max(0, len(present) - least)]
        if leaving:
            self._nodes.remove(cluster.workspace, cluster.name, [node.name for node in leaving])
        if len(present) < least:
            self._nodes.put(self._new(cluster, present, least - len(present)))

    def _has_idled(self, cluster: Asset, node: Node) -> bool:
        seconds = cluster.body.get("idle_seconds_before_scaledown")
        limit = timedelta(seconds=DEFAULT_IDLE_SECONDS if seconds is None else float(seconds))
        return self._clock.now() - node.since >= limit

    def _new(self, cluster: Asset, present: Sequence[Node], count: int) -> Sequence[Node]:
        taken = {node.name for node in present}
        slots = (slot for slot in range(len(present) + count) if f"{cluster.name}-{slot}" not in taken)
        now = self._clock.now()
        return [_node(cluster.workspace, cluster.name, next(slots), now) for _ in range(count)]


def slot_of(node: Node) -> int:
    """Number of a node within its cluster, from 0; node names end in it."""
    return int(node.name.rpartition("-")[2])


def nodes_without_cluster(run: RunRecord, now: datetime) -> tuple[Node, ...]:
    """Nodes of a run without a cluster. They are not shared, so they are not stored."""
    return tuple(
        replace(_node(run.id, run.target, slot, now), workspace=run.workspace, state=NodeState.RUNNING, run_id=run.id)
        for slot in range(run.definition.node_count)
    )


def _node(workspace: str, cluster: str, slot: int, now: datetime) -> Node:
    # Every loopback address is this machine; clusters get different ones, so that their ports do not collide.
    net = zlib.crc32(f"{workspace}/{cluster}".encode()) % 250 + 1
    address = f"127.{slot // _SLOTS_OF_A_NET}.{net}.{slot % _SLOTS_OF_A_NET + 2}"
    return Node(workspace, cluster, f"{cluster}-{slot}", address, NodeState.IDLE, now)


def _waits_for(run: RunRecord, needed: int, ready: int, present: Sequence[Node]) -> str:
    holders = sorted({node.run_id for node in present if node.run_id})
    words = f"Waiting for {needed} node{'s' if needed > 1 else ''} of '{run.target}': {ready} ready"
    if not holders:
        return f"{words}."
    held = sum(1 for node in present if node.run_id)
    listed = ", ".join(holders[:3]) + (", ..." if len(holders) > 3 else "")
    return f"{words}, {held} held by run{'s' if len(holders) > 1 else ''} {listed}."
