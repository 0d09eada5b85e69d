import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from runyard.errors import NotFound
from runyard.model.assets import Asset, AssetKind
from runyard.model.nodes import Node, NodeState
from runyard.model.runs import RunId, RunRecord
from runyard.ports.clock import Clock
from runyard.ports.stores import AssetStore, NodeStore

_DEFAULT_IDLE_SECONDS = 1800


@dataclass(frozen=True)
class Gang:
    """All the nodes of a run, or none of them and what it waits for."""

    nodes: tuple[Node, ...] = ()
    most_nodes: int = 1
    waits_for: str = ""


class Clusters:
    """Slots of this machine that come when they are wanted and go when they have idled. One thread at a time."""

    def __init__(self, assets: AssetStore, nodes: NodeStore, clock: Clock) -> None:
        self._assets, self._nodes, self._clock = assets, nodes, clock

    def exists(self, run: RunRecord) -> bool:
        return self._find(run) is not None

    def hold(self, run: RunRecord) -> Gang:
        """Take as many nodes as the run needs, making them where the cluster may still grow. Safe to repeat."""
        cluster = self._find(run)
        if cluster is None:
            return Gang(waits_for=f"Compute '{run.target}' is gone.")
        most = int(cluster.body["max_nodes"])
        needed = int(run.definition.get("nodeCount") or 1)
        present = self._nodes.list(run.workspace, run.target)
        own = [node for node in present if node.run_id == run.id]
        free = [node for node in present if node.state is NodeState.IDLE]
        room = most - len(present)
        if len(own) + len(free) + room < needed:
            return Gang(waits_for=_waits_for(run, needed, len(free) + max(0, room), present))
        chosen = (own + free)[:needed]
        chosen += self._new(cluster, present, needed - len(chosen))
        held = tuple(replace(node, state=NodeState.RUNNING, run_id=run.id, since=self._clock.now()) for node in chosen)
        self._nodes.put(held)
        return Gang(held, most)

    def held_by(self, run: RunRecord) -> Gang:
        """The nodes it has been given."""
        cluster = self._find(run)
        nodes = tuple(node for node in self._nodes.list(run.workspace, run.target) if node.run_id == run.id)
        return Gang(nodes, int(cluster.body["max_nodes"]) if cluster is not None else max(1, len(nodes)))

    def resize(self, unfinished: Sequence[RunRecord]) -> None:
        """Free nodes whose run has ended, remove those that idled too long, have the minimum there."""
        living = {run.id for run in unfinished}
        for workspace in self._assets.list_workspaces():
            for cluster in self._assets.list(workspace.name, AssetKind.COMPUTE, latest_only=True):
                self._resize(cluster, living)

    def _resize(self, cluster: Asset, living: set[RunId]) -> None:
        present = self._nodes.list(cluster.workspace, cluster.name)
        for node in present:
            if node.run_id and RunId(node.run_id) not in living:
                self._nodes.release(RunId(node.run_id))
        least = int(cluster.body.get("min_nodes") or 0)
        idled = [node for node in present if node.state is NodeState.IDLE and self._has_idled(cluster, node)]
        leaving = idled[: max(0, len(present) - least)]
        if leaving:
            self._nodes.remove(cluster.workspace, cluster.name, [node.name for node in leaving])
        if len(present) < least:
            self._nodes.put(self._new(cluster, present, least - len(present)))

    def _has_idled(self, cluster: Asset, node: Node) -> bool:
        seconds = cluster.body.get("idle_seconds_before_scaledown")
        limit = timedelta(seconds=_DEFAULT_IDLE_SECONDS if seconds is None else float(seconds))
        return self._clock.now() - node.since >= limit

    def _find(self, run: RunRecord) -> Asset | None:
        try:
            return self._assets.get(run.workspace, AssetKind.COMPUTE, run.target)
        except NotFound:
            return None

    def _new(self, cluster: Asset, present: Sequence[Node], count: int) -> list[Node]:
        taken = {node.name for node in present}
        slots = (slot for slot in range(len(present) + count) if f"{cluster.name}-{slot}" not in taken)
        return [self._node(cluster, next(slots)) for _ in range(count)]

    def _node(self, cluster: Asset, slot: int) -> Node:
        # Every loopback address is this machine; clusters get different ones so that their ports do not meet.
        net = zlib.crc32(f"{cluster.workspace}/{cluster.name}".encode()) % 250 + 1
        address = f"127.{slot // 250}.{net}.{slot % 250 + 2}"
        return Node(
            cluster.workspace, cluster.name, f"{cluster.name}-{slot}", address, NodeState.IDLE, self._clock.now()
        )


def _waits_for(run: RunRecord, needed: int, ready: int, present: Sequence[Node]) -> str:
    holders = sorted({node.run_id for node in present if node.run_id})
    words = f"Waiting for {needed} node{'s' if needed > 1 else ''} of '{run.target}': {ready} ready"
    if not holders:
        return f"{words}."
    held = sum(1 for node in present if node.run_id)
    listed = ", ".join(holders[:3]) + (", ..." if len(holders) > 3 else "")
    return f"{words}, {held} held by run{'s' if len(holders) > 1 else ''} {listed}."
