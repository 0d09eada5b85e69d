from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from runyard.access.authorization import Access
from runyard.assets.kinds import PlainKind
from runyard.compute.clusters import Clusters
from runyard.compute.sites import ComputeSites
from runyard.core.definitions.compute import ComputeDefinition
from runyard.core.errors import Conflict, EngineError
from runyard.core.policy import Action
from runyard.core.ports.stores import AssetStore, NodeStore, RunStore
from runyard.core.principal import Principal
from runyard.core.records.assets import Asset, AssetKind
from runyard.core.records.nodes import Node, NodeState
from runyard.runs.scheduling.controller import RunController


@dataclass(frozen=True)
class ComputeStatus:
    current: int
    target: int
    counts: dict[str, int]
    allocation_state: str
    allocation_changed_at: datetime
    errors: tuple[str, ...] = ()


class ComputeRules(PlainKind[ComputeDefinition]):
    """Rules of compute targets: clusters of min_nodes to max_nodes nodes. Their site adds and removes the nodes."""

    is_versioned = False

    def __init__(
        self,
        nodes: NodeStore,
        runs: RunStore,
        places: Clusters,
        controller: RunController,
        sites: ComputeSites,
        access: Access,
    ) -> None:
        self._nodes, self._runs, self._places, self._controller = nodes, runs, places, controller
        self._sites, self._access = sites, access

    def checked(self, who: Principal, workspace: str, name: str, new: ComputeDefinition) -> ComputeDefinition:
        if new.names_a_place:
            self._access.workspace(who, Action.PLACE_COMPUTE, workspace)
        kept = new.stored(self._sites.targets.checked(new))
        if kept.own_place:
            self._sites.require(kept)  # first, because a site stays open once it was opened
        self._check_place(workspace, name, kept)
        return kept

    def checked_change(self, who: Principal, seen: Asset, changed: ComputeDefinition) -> ComputeDefinition:
        before = ComputeDefinition(seen.body)
        if not changed.is_placed_as(before):
            self._access.workspace(who, Action.PLACE_COMPUTE, seen.workspace)
        kept = changed.checked().stored(self._sites.targets.checked(changed))
        if kept.own_place and kept.place != before.place:
            self._sites.require(kept)
        self._check_place(seen.workspace, seen.name, kept)
        return kept

    def stored(self, asset: Asset) -> None:
        self._controller.wake()

    def before_delete(self, asset: Asset, version: int | None) -> None:
        self._require_no_runs(asset.workspace, asset.name, "delete it")

    def deleted(self, asset: Asset) -> None:
        names = [node.name for node in self._nodes.list(asset.workspace, asset.name)]
        self._nodes.remove(asset.workspace, asset.name, names)
        self._controller.wake()

    def _check_place(self, workspace: str, name: str, kept: ComputeDefinition) -> None:
        """Check that the site can provide the nodes, and that an existing target does not move while it has runs."""
        now = datetime.now(UTC)
        wanted = Asset("", workspace, AssetKind.COMPUTE, name, 1, now, now, kept.raw)
        self._places.check_cluster(wanted)
        before = self._places.find(workspace, name)
        if before is not None and ComputeDefinition(before.body).place != kept.place:
            self._require_no_runs(workspace, name, "change where it is")

    def _require_no_runs(self, workspace: str, name: str, next_step: str) -> None:
        unfinished = [run.id for run in self._runs.unfinished() if (run.workspace, run.target) == (workspace, name)]
        if unfinished:
            listed = ", ".join(sorted(unfinished)[:3])
            raise Conflict(
                f"Compute {name!r} has {len(unfinished)} unfinished runs: {listed}.",
                hint=f"Cancel them or wait, then {next_step}.",
            )


class ComputeTargets:
    """Current nodes and status of compute targets."""

    def __init__(self, assets: AssetStore, places: Clusters, access: Access) -> None:
        self._assets, self._places, self._access = assets, places, access

    def nodes(self, who: Principal, workspace: str, name: str) -> Sequence[Node]:
        return self._places.nodes(self._get(who, workspace, name))

    def status(self, who: Principal, workspace: str, name: str) -> ComputeStatus:
        """Status of a target. If its site cannot be reached, `errors` says so and there are no nodes."""
        asset = self._get(who, workspace, name)
        try:
            return _status(asset, self._places.nodes(asset))
        except EngineError as error:
            return replace(_status(asset, ()), errors=(str(error),))

    def _get(self, who: Principal, workspace: str, name: str) -> Asset:
        self._access.workspace(who, Action.READ_ASSET, workspace)
        return self._assets.get(workspace, AssetKind.COMPUTE, name)


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
