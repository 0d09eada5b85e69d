import json
import threading
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from runyard.engines.local import LocalEngine
from runyard.engines.local_pool import LocalPool
from runyard.engines.ray.address import parse_address
from runyard.engines.ray.site import RaySite
from runyard.errors import EngineError, InvalidArgument
from runyard.model.assets import Asset
from runyard.planning.vm_sizes import BUILT_IN, TABLE_VARIABLE, NodeResources, edited_table
from runyard.ports.clock import Clock
from runyard.ports.engine import Site
from runyard.ports.stores import NodeStore
from runyard.settings import Settings

MakeRaySite = Callable[[str], RaySite]


class KnownSites:
    """This machine, and a site for each Ray cluster that a compute target names, made when it is first asked for."""

    def __init__(
        self, local: LocalEngine, home: Site, make_ray_site: MakeRaySite, *, default_address: str = ""
    ) -> None:
        """Compute targets that name no engine are on the Ray cluster at `default_address`, if there is one."""
        self._local, self._home, self._make, self._default = local, home, make_ray_site, default_address
        self._ray: dict[str, RaySite] = {}
        self._lock = threading.Lock()

    def home(self) -> Site:
        return self._home

    def of(self, cluster: Asset) -> Site:
        engine = cluster.body.get("engine") or ("ray" if self._default else "local")
        if engine == "local":
            return self._home
        if engine != "ray":
            raise EngineError(f"Compute target {cluster.name!r} is on {engine!r}; known are 'local' and 'ray'.")
        return self._at(parse_address(cluster.body.get("address") or self._default)).site

    def _at(self, address: str) -> RaySite:
        with self._lock:
            if address not in self._ray:
                self._ray[address] = self._make(address)
            return self._ray[address]

    def all(self) -> Sequence[Site]:
        with self._lock:
            return [self._home, *(found.site for found in self._ray.values())]

    def warm(self) -> None:
        """Have ready what the first run would have to wait for: the agent, and the bridge to the default cluster."""
        if self._default:
            self._at(self._default).link.start()
        self._local.warm()

    def close(self) -> None:
        """End the bridges; runs go on."""
        with self._lock:
            for found in self._ray.values():
                found.close()


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
    """`url` is the service's on this machine; `node_url` where other machines reach it, with `node_ca` the certificate
    they shall trust. `on_change` is called, from any thread, when nodes that were waited for may be there."""
    sizes = read_vm_sizes(settings.vm_sizes)
    engine = LocalEngine(home)
    local = Site("local", engine, LocalPool(nodes, clock), url)

    def make(address: str) -> RaySite:
        return RaySite(address, home, clock, url=node_url or url, ca=node_ca, sizes=sizes, on_change=on_change)

    default = parse_address(settings.ray_address) if settings.engine == "ray" else ""
    return KnownSites(engine, local, make, default_address=default)


def read_vm_sizes(file: Path | None) -> Mapping[str, NodeResources]:
    """The built-in table, with the sizes of the operator's file. Raises InvalidArgument naming what is wrong in it."""
    if file is None:
        return BUILT_IN
    try:
        text = file.read_text(encoding="utf-8")
        return edited_table(json.loads(text) if file.suffix == ".json" else tomllib.loads(text))
    except (OSError, ValueError) as e:
        raise InvalidArgument(f"{TABLE_VARIABLE} names {file}, which cannot be read as TOML or JSON: {e}.") from e
