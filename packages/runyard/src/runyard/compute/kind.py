"""The interface of a compute kind, plugged in by an entry point of the group `runyard.compute`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from runyard.model.findings import Finding
from runyard.planning.vm_sizes import NodeResources
from runyard.ports.clock import Clock
from runyard.ports.engine import Disk, Engine, NodePool, Site
from runyard.ports.stores import NodeStore

T = TypeVar("T")
S = TypeVar("S")


@dataclass(frozen=True)
class SiteNeeds:
    """Facts of the service that a new site gets."""

    home: Path
    """The service's home. A kind keeps its files in a folder below it that has the kind's name."""
    nodes: NodeStore
    clock: Clock
    url: str
    """The service's address for this machine."""
    node_url: str
    """The service's address for other machines."""
    node_ca: str
    """Certificates in PEM form that nodes on other machines shall trust beside their system's."""
    sizes: Mapping[str, NodeResources]
    """Resources of a node by vm_size."""
    on_change: Callable[[], None]
    """To be called, from any thread, when something may have come that runs wait for."""


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
    """A sort of cluster. `target` and `settings` are frozen dataclasses with fields of type str, int, float or bool,
    which check their values in `__post_init__` by raising InvalidArgument."""

    name: str
    """The name of its entry point, and in `engine` of compute targets."""
    title: str
    """For people: "Slurm"."""
    target: type[T]
    """What a compute target of this kind says: `address` of its body, and all other fields in `settings` there."""
    settings: type[S]
    """What the operator sets for all of them: variables RUNYARD_<KIND>_<FIELD>."""
    make: Callable[[T, S, SiteNeeds], SiteParts]
    """Called once for each place, when it is first needed. Returns promptly: it connects to nothing."""
    place: Callable[[T, S], str] = lambda target, settings: ""
    """Compute targets of one place share one site. Raises InvalidArgument where neither names a place."""
    require: Callable[[T, S, Path], None] = lambda target, settings, home: None
    """Raises EngineError where no cluster that can be used answers. Asked before a target is stored; may take
    seconds."""
    disk: Disk = Disk.OWN
    queues_itself: bool = False
    """Its engine has a queue. Runs are handed over at once, and nodes are not held for them."""
    attached_as: str = ""
    """`type` of compute targets that are attached. Empty for a kind whose clusters cannot be."""
    attach_help: str = ""
    """What `runyard compute attach KIND --help` says."""
    shown: Callable[[T], str] = lambda target: ""
    """Where a target is, for people: "Slurm at login.example"."""
    findings: Callable[[], Sequence[Finding]] = lambda: ()
    """What `runyard doctor` says of it on this machine."""

    def open_site(self, target: T, settings: S, needs: SiteNeeds) -> Site:
        made = self.make(target, settings, needs)
        name = f"{self.name} {self.place(target, settings)}".strip()
        return Site(name, made.engine, made.pool, made.url, self.disk, self.queues_itself, made.warm, made.close)
