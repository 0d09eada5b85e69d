"""The interface of a compute kind, plugged in by an entry point of the group `runyard.compute`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from runyard.compute.vm_sizes import NodeResources
from runyard.core.definitions.run import RunDefinition
from runyard.core.ports.clock import Clock
from runyard.core.ports.engine import Disk, Engine, NodePool, Site
from runyard.core.ports.stores import NodeStore
from runyard.core.records.assets import Asset
from runyard.core.records.health import HealthFinding
from runyard.core.records.nodes import Node, NodeAllocation
from runyard.core.records.runs import RunId, RunRecord

T = TypeVar("T")
S = TypeVar("S")


@dataclass(frozen=True)
class SiteNeeds:
    """What the service gives to a new site."""

    home: Path
    """The service's home. A kind keeps its files in a folder below it that has the kind's name."""
    nodes: NodeStore
    clock: Clock
    url: str
    """The service's address for this machine."""
    node_url: str
    """The service's address for other machines."""
    node_ca: str
    """Certificates in PEM form that nodes on other machines trust beside their system's."""
    sizes: Mapping[str, NodeResources]
    """Resources of a node by vm_size."""
    on_change: Callable[[], None]
    """Called by the site, from any thread, when nodes that runs wait for may have become free."""


@dataclass(frozen=True)
class SiteParts:
    """The site of one cluster, made by its kind; see `Site` for the fields."""

    engine: Engine
    pool: NodePool
    url: str
    warm: Callable[[], None] = lambda: None
    close: Callable[[], None] = lambda: None


@dataclass(frozen=True, kw_only=True)
class ComputeKind(Generic[T, S]):
    """A kind of cluster. `target` and `settings` are frozen dataclasses with fields of type str, int, float or bool,
    which check their values in `__post_init__` and raise InvalidArgument."""

    name: str
    """Name of its entry point, and value of `engine` in compute targets."""
    title: str
    """Shown to users: "Slurm"."""
    target: type[T]
    """Fields of a compute target of this kind: `address` of its body, and all others in `settings` there."""
    settings: type[S]
    """Settings of the operator for all targets: variables RUNYARD_<KIND>_<FIELD>."""
    make: Callable[[T, S, SiteNeeds], SiteParts]
    """Makes the site of a place, on first use. Returns at once: it connects to nothing."""
    place: Callable[[T, S], str] = lambda target, settings: ""
    """Key of the cluster: targets with the same place share a site. InvalidArgument where neither names one."""
    require: Callable[[T, S, Path], None] = lambda target, settings, home: None
    """Checks the cluster before a target is stored. Raises EngineError where no usable cluster answers. May take
    seconds."""
    disk: Disk = Disk.OWN
    queues_itself: bool = False
    """Its engine has a queue of its own: runs are submitted at once, and hold no nodes."""
    attached_as: str = ""
    """`type` of attached compute targets. Empty for a kind whose clusters cannot be attached."""
    attach_help: str = ""
    """Help text of `runyard compute attach KIND`."""
    shown: Callable[[T], str] = lambda target: ""
    """Where a target is, shown to users: "Slurm at login.example"."""
    findings: Callable[[], Sequence[HealthFinding]] = lambda: ()
    """Findings of `runyard doctor` about it on this machine."""

    def open_site(self, target: T, settings: S, needs: SiteNeeds) -> Site:
        made = self.make(target, settings, needs)
        name = f"{self.name} {self.place(target, settings)}".strip()
        return Site(name, made.engine, made.pool, made.url, self.disk, self.queues_itself, made.warm, made.close)


class QueuePool:
    """Pool of a cluster with a queue of its own: it has no nodes."""

    def check(self, cluster: Asset, definition: RunDefinition) -> None:
        pass

    def hold(self, cluster: Asset, run: RunRecord) -> NodeAllocation:
        return NodeAllocation(waits_for=f"'{cluster.name}' has a queue of its own.")

    def held_by(self, cluster: Asset, run: RunRecord) -> NodeAllocation:
        return NodeAllocation()

    def release(self, run_id: RunId) -> None:
        pass

    def resize(self, clusters: Sequence[Asset], living: set[RunId]) -> None:
        pass

    def gpus_promised(self, cluster: Asset) -> int | None:
        return int((cluster.body.get("resources") or {}).get("gpu") or 0)

    def list(self, cluster: Asset) -> Sequence[Node]:
        return ()
