from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from runyard.errors import Conflict, InvalidArgument
from runyard.model.assets import Asset, AssetKind
from runyard.model.nodes import Node, NodeState
from runyard.ports.controller import RunMover
from runyard.ports.stores import AssetStore, NodeStore, RunStore
from runyard.services.assets import Body
from runyard.services.kinds import PlainKind
from runyard.services.places import Places

DEFAULT_IDLE_SECONDS = 1800


@dataclass(frozen=True)
class ComputeStatus:
    current: int
    target: int
    counts: dict[str, int]
    allocation_state: str
    allocation_changed_at: datetime
    errors: tuple[str, ...] = ()


class ComputeKind(PlainKind):
    """A cluster of min_nodes to max_nodes slots. The controller makes and removes the nodes."""

    is_versioned = False

    def __init__(self, nodes: NodeStore, runs: RunStore, places: Places, mover: RunMover) -> None:
        self._nodes, self._runs, self._places, self._mover = nodes, runs, places, mover

    def checked_body(self, workspace: str, name: str, body: Body) -> Body:
        min_nodes = _whole(body, "min_nodes", 0, at_least=0)
        max_nodes = _whole(body, "max_nodes", None, at_least=1)
        if min_nodes > max_nodes:
            raise InvalidArgument(f"min_nodes must be at most max_nodes ({max_nodes}), got {min_nodes}.")
        idle = _whole(body, "idle_seconds_before_scaledown", DEFAULT_IDLE_SECONDS, at_least=0)
        priority = str(body.get("vm_priority") or "dedicated")
        if priority.lower() not in ("dedicated", "lowpriority"):
            raise InvalidArgument(f"vm_priority must be 'dedicated' or 'lowpriority', got {priority!r}.")
        return {
            "type": "AmlCompute",
            "vm_size": "",
            "description": "",
            "location": "local",
            **body,
            "vm_priority": priority,
            "min_nodes": min_nodes,
            "max_nodes": max_nodes,
            "idle_seconds_before_scaledown": idle,
            "provisioning_state": "Succeeded",
        }

    def stored(self, asset: Asset) -> None:
        self._mover.wake()

    def before_delete(self, asset: Asset) -> None:
        holders = {node.run_id for node in self._nodes.list(asset.workspace, asset.name) if node.run_id}
        holders |= {
            run.id for run in self._runs.unfinished() if (run.workspace, run.target) == (asset.workspace, asset.name)
        }
        if holders:
            listed = ", ".join(sorted(holders)[:3])
            raise Conflict(
                f"Compute {asset.name!r} has {len(holders)} unfinished runs: {listed}.",
                hint="Cancel them or wait, then delete it.",
            )

    def deleted(self, asset: Asset) -> None:
        names = [node.name for node in self._nodes.list(asset.workspace, asset.name)]
        self._nodes.remove(asset.workspace, asset.name, names)
        self._mover.wake()


class Computes:
    """What a cluster has at the moment."""

    def __init__(self, assets: AssetStore, places: Places) -> None:
        self._assets, self._places = assets, places

    def nodes(self, workspace: str, name: str) -> Sequence[Node]:
        return self._places.nodes(self._assets.get(workspace, AssetKind.COMPUTE, name))

    def status(self, workspace: str, name: str) -> ComputeStatus:
        asset = self._assets.get(workspace, AssetKind.COMPUTE, name)
        nodes = self._places.nodes(asset)
        counted = Counter(node.state for node in nodes)
        staying = len(nodes) - counted[NodeState.LEAVING]
        moving = counted[NodeState.PREPARING] + counted[NodeState.LEAVING]
        return ComputeStatus(
            current=len(nodes) - counted[NodeState.PREPARING],
            target=max(staying, int(asset.body.get("min_nodes", 0))),
            counts={state.value: counted[state] for state in NodeState},
            allocation_state="Resizing" if moving else "Steady",
            allocation_changed_at=max([node.since for node in nodes], default=asset.modified_at),
        )


def _whole(body: Body, name: str, default: int | None, *, at_least: int) -> int:
    value: Any = body.get(name)
    if value is None and default is not None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value < at_least:
        raise InvalidArgument(f"{name} must be a whole number of at least {at_least}, got {value!r}.")
    return value
