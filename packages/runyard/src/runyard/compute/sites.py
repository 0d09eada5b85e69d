import json
import threading
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from runyard.compute.kind import SiteNeeds
from runyard.compute.registry import LOCAL, ComputeKinds
from runyard.compute.targets import ComputeTargets
from runyard.core.definitions.compute import ComputeDefinition
from runyard.errors import InvalidArgument
from runyard.model.assets import Asset
from runyard.planning.vm_sizes import BUILT_IN, TABLE_VARIABLE, NodeResources, edited_table
from runyard.ports.clock import Clock
from runyard.ports.engine import Site
from runyard.ports.stores import NodeStore
from runyard.settings import Settings


class KnownSites:
    """Sites by place: this machine, and each cluster that a compute target names. Made on first use."""

    def __init__(self, targets: ComputeTargets, needs: SiteNeeds) -> None:
        self.targets, self._needs = targets, needs
        self._sites: dict[tuple[str, str], Site] = {}
        self._lock = threading.Lock()

    def home(self) -> Site:
        return self._sites.get((LOCAL, "")) or self._at(ComputeDefinition({"engine": LOCAL}))

    def of(self, cluster: Asset) -> Site:
        return self._at(ComputeDefinition(cluster.body))

    def all(self) -> Sequence[Site]:
        home = self.home()
        with self._lock:
            return [home, *(site for site in self._sites.values() if site is not home)]

    def require(self, target: ComputeDefinition) -> None:
        """Check a target's cluster. Raises EngineError where no usable cluster answers. May take seconds."""
        read = self.targets.read(target)
        read.kind.require(read.target, read.settings, self._needs.home)

    def warm(self) -> None:
        """Start in advance what the first run would wait for."""
        if self.targets.default != LOCAL:
            self._at(ComputeDefinition()).warm()
        self.home().warm()

    def close(self) -> None:
        """Close the sites of this service; runs go on."""
        with self._lock:
            for site in self._sites.values():
                site.close()

    def _at(self, target: ComputeDefinition) -> Site:
        read = self.targets.read(target)
        place = read.kind.name, read.place
        with self._lock:
            if place not in self._sites:
                self._sites[place] = read.kind.open_site(read.target, read.settings, self._needs)
            return self._sites[place]


def build_sites(
    settings: Settings,
    home: Path,
    nodes: NodeStore,
    clock: Clock,
    *,
    url: str,
    node_url: str = "",
    node_ca: str = "",
    on_change: Callable[[], None] = lambda: None,
) -> KnownSites:
    """Make the sites. `url`: the service's address on this machine; `node_url`: for other machines, with `node_ca` the
    certificate that they trust. `on_change` is called, from any thread, when nodes may have become free.

    Raises InvalidArgument with the name of a wrong setting."""
    targets = ComputeTargets(ComputeKinds(), settings.engine, settings.variables)
    targets.check_settings()
    sizes = read_vm_sizes(settings.vm_sizes)
    return KnownSites(targets, SiteNeeds(home, nodes, clock, url, node_url or url, node_ca, sizes, on_change))


def read_vm_sizes(file: Path | None) -> Mapping[str, NodeResources]:
    """Built-in table, with the sizes of the operator's file. Raises InvalidArgument with what is wrong in the file."""
    if file is None:
        return BUILT_IN
    try:
        text = file.read_text(encoding="utf-8")
        return edited_table(json.loads(text) if file.suffix == ".json" else tomllib.loads(text))
    except (OSError, ValueError) as e:
        raise InvalidArgument(f"{TABLE_VARIABLE} names {file}, which cannot be read as TOML or JSON: {e}.") from e
