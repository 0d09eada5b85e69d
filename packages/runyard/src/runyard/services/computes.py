from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from runyard.errors import Conflict, EngineError
from runyard.model.assets import Asset, AssetKind
from runyard.model.nodes import Node, NodeState
from runyard.ports.controller import RunMover
from runyard.ports.stores import AssetStore, NodeStore, RunStore
from runyard.services.assets import Body
from runyard.services.compute_body import checked_compute
from runyard.services.kinds import PlainKind
from runyard.services.places import Places


@dataclass(frozen=True)
class ComputeStatus:
    current: int
    target: int
    counts: dict[str, int]
    allocation_state: str
    allocation_changed_at: datetime
    errors: tuple[str, ...] = ()


class ComputeKind(PlainKind):
    """A cluster of min_nodes to max_nodes nodes, here or on a Ray cluster. Its site makes and removes the nodes."""

    is_versioned = False

    def __init__(
        self, nodes: NodeStore, runs: RunStore, places: Places, mover: RunMover, reach: Callable[[str], None]
    ) -> None:
        """`reach` raises where no Ray cluster that can be worked with answers at an address."""
        self._nodes, self._runs, self._places, self._mover, self._reach = nodes, runs, places, mover, reach

    def checked_body(self, workspace: str, name: str, body: Body) -> Body:
        checked = checked_compute(body)
        self._check_place(workspace, name, checked)
        if checked.get("address"):
            self._reach(checked["address"])
        return checked

    def checked_change(self, seen: Asset, body: Body) -> Body:
        checked = checked_compute(body)
        self._check_place(seen.workspace, seen.name, checked)
        if checked.get("address") not in (None, seen.body.get("address")):
            self._reach(checked["address"])
        return checked

    def stored(self, asset: Asset) -> None:
        self._mover.wake()

    def before_delete(self, asset: Asset, version: int | None) -> None:
        self._require_no_runs(asset.workspace, asset.name, "delete it")

    def deleted(self, asset: Asset) -> None:
        names = [node.name for node in self._nodes.list(asset.workspace, asset.name)]
        self._nodes.remove(asset.workspace, asset.name, names)
        self._mover.wake()

    def _check_place(self, workspace: str, name: str, body: Body) -> None:
        """What is there under this name may not be moved under its runs; its nodes must be ones that can be had."""
        now = datetime.now(UTC)
        wanted = Asset("", workspace, AssetKind.COMPUTE, name, 1, now, now, body)
        self._places.check_cluster(wanted)
        before = self._places.find(workspace, name)
        if before is not None and _place(before.body) != _place(body):
            self._require_no_runs(workspace, name, "change where it is")

    def _require_no_runs(self, workspace: str, name: str, wish: str) -> None:
        unfinished = [run.id for run in self._runs.unfinished() if (run.workspace, run.target) == (workspace, name)]
        if unfinished:
            listed = ", ".join(sorted(unfinished)[:3])
            raise Conflict(
                f"Compute {name!r} has {len(unfinished)} unfinished runs: {listed}.",
                hint=f"Cancel them or wait, then {wish}.",
            )


class Computes:
    """What a cluster has at the moment."""

    def __init__(self, assets: AssetStore, places: Places) -> None:
        self._assets, self._places = assets, places

    def nodes(self, workspace: str, name: str) -> Sequence[Node]:
        return self._places.nodes(self._assets.get(workspace, AssetKind.COMPUTE, name))

    def status(self, workspace: str, name: str) -> ComputeStatus:
        """Where its site cannot be reached, `errors` says so and there are no nodes to tell of."""
        asset = self._assets.get(workspace, AssetKind.COMPUTE, name)
        try:
            return _status(asset, self._places.nodes(asset))
        except EngineError as error:
            return replace(_status(asset, ()), errors=(str(error),))


def _status(asset: Asset, nodes: Sequence[Node]) -> ComputeStatus:
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


def _place(body: Body) -> tuple[object, ...]:
    return body.get("engine"), body.get("address")
