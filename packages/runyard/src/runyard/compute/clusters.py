import contextlib
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager

from runyard.core.definitions.run import RunDefinition
from runyard.core.errors import EngineError, InvalidArgument
from runyard.core.lookups import find_asset
from runyard.core.plan_json import address_placeholder
from runyard.core.ports.engine import NodePool, Site, Sites
from runyard.core.ports.stores import AssetStore
from runyard.core.records.assets import Asset, AssetKind
from runyard.core.records.nodes import Node, NodeAllocation, NodeState
from runyard.core.records.runs import RunId, RunRecord

UNMANAGED_TARGETS = frozenset({"local", "amlcompute"})
"""Compute targets without a cluster: their runs start on this machine at once."""


class Clusters:
    """Finds the site of a compute target and manages its nodes there. Thread-safe: each pool has a lock."""

    def __init__(self, assets: AssetStore, sites: Sites) -> None:
        self._assets, self._sites = assets, sites
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def cluster_of(self, run: RunRecord) -> Asset | None:
        """Cluster of the run; None if it has none or the cluster was deleted."""
        return None if run.target in UNMANAGED_TARGETS else self.find(run.workspace, run.target)

    def find(self, workspace: str, name: str) -> Asset | None:
        return find_asset(self._assets, workspace, AssetKind.COMPUTE, name)

    def site_of(self, run: RunRecord) -> Site:
        """Site that the run belongs to. Raises EngineError if it is not available."""
        cluster = self.cluster_of(run)
        return self._sites.home() if cluster is None else self._sites.of(cluster)

    def is_at_home(self, run: RunRecord) -> bool:
        """Whether the run is on this machine."""
        return self.site_of(run).name == self._sites.home().name

    def check(self, cluster: Asset, definition: RunDefinition) -> None:
        """See `NodePool.check`."""
        with self._pool_of(cluster) as pool:
            pool.check(cluster, definition)

    def most_nodes(self, cluster: Asset | None) -> int:
        """Most nodes that one run can have on the cluster, or without one."""
        most = (self._sites.home() if cluster is None else self._sites.of(cluster)).engine.capabilities.max_nodes
        return most if cluster is None else min(most, int(cluster.body["max_nodes"]))

    def check_cluster(self, cluster: Asset) -> None:
        """Raise InvalidArgument for an unknown node size or too many nodes, EngineError without a site."""
        least, most = int(cluster.body["min_nodes"]), self._sites.of(cluster).engine.capabilities.max_nodes
        if least > most:
            raise InvalidArgument(f"min_nodes must be at most {most} there, got {least}.", hint="Lower it.")
        with self._pool_of(cluster) as pool:
            pool.gpus_promised(cluster)

    def gpus_promised(self, run: RunRecord) -> int | None:
        """See `NodePool.gpus_promised`; None without a cluster."""
        cluster = self.cluster_of(run)
        if cluster is None:
            return None
        with self._pool_of(cluster) as pool:
            return pool.gpus_promised(cluster)

    def nodes(self, cluster: Asset) -> Sequence[Node]:
        with self._pool_of(cluster) as pool:
            return pool.list(cluster)

    def hold(self, run: RunRecord) -> NodeAllocation:
        """See `NodePool.hold`."""
        cluster = self.cluster_of(run)
        if cluster is None:
            return NodeAllocation(waits_for=f"Compute '{run.target}' is gone.")
        with self._pool_of(cluster) as pool:
            return pool.hold(cluster, run)

    def queues_itself(self, workspace: str, target: str) -> bool:
        """Whether the cluster has its own queue. Raises EngineError if its site is not available."""
        cluster = self.find(workspace, target)
        return cluster is not None and self._sites.of(cluster).queues_itself

    def unplaced(self, run: RunRecord, count: int) -> NodeAllocation:
        """Allocation of a run in the cluster's own queue: names and placeholders for addresses."""
        names = run.nodes or [f"{run.target}-{number}" for number in range(count)]
        nodes = tuple(
            Node(
                run.workspace,
                run.target,
                name,
                address_placeholder(number, len(names)),
                NodeState.PREPARING,
                run.created_at,
                run.id,
            )
            for number, name in enumerate(names)
        )
        return NodeAllocation(nodes, len(names))

    def held_by(self, run: RunRecord) -> NodeAllocation:
        """Nodes that the run was started on, in the same order."""
        cluster = self.cluster_of(run)
        if cluster is None:
            return NodeAllocation()
        if self._sites.of(cluster).queues_itself:
            return self.unplaced(run, len(run.nodes))
        with self._pool_of(cluster) as pool:
            allocation = pool.held_by(cluster, run)
        order = {name: index for index, name in enumerate(run.nodes)}
        nodes = sorted(allocation.nodes, key=lambda node: order.get(node.name, len(order)))
        return NodeAllocation(tuple(nodes), allocation.most_nodes)

    def release(self, run: RunRecord) -> None:
        """Release the nodes of the run. Does nothing if the site cannot be reached: `resize` frees them later."""
        with contextlib.suppress(EngineError), self._locked_pool(self.site_of(run)) as pool:
            pool.release(run.id)

    def resize(self, living: set[RunId]) -> None:
        """Let the pool of every cluster add, remove and free nodes. `living`: runs that have not ended."""
        for site, clusters in self._clusters_by_site():
            with contextlib.suppress(EngineError), self._locked_pool(site) as pool:
                pool.resize(clusters, living)

    def _pool_of(self, cluster: Asset) -> AbstractContextManager[NodePool]:
        return self._locked_pool(self._sites.of(cluster))

    @contextlib.contextmanager
    def _locked_pool(self, site: Site) -> Iterator[NodePool]:
        """One lock for each site, so that a slow site does not block the others."""
        with self._locks[site.name]:
            yield site.pool

    def _clusters_by_site(self) -> Sequence[tuple[Site, Sequence[Asset]]]:
        found: dict[str, tuple[Site, list[Asset]]] = {site.name: (site, []) for site in self._sites.all()}
        for workspace in self._assets.list_workspaces():
            for cluster in self._assets.list(workspace.name, AssetKind.COMPUTE, latest_only=True):
                with contextlib.suppress(EngineError):
                    site = self._sites.of(cluster)
                    found.setdefault(site.name, (site, []))[1].append(cluster)
        return list(found.values())
