from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import quote

from runyard.compute.ray.engine import RayEngine
from runyard.compute.ray.link import BridgeLink
from runyard.compute.ray.names import service_id
from runyard.compute.ray.pool import RayPool
from runyard.compute.ray.ray_cluster import RayCluster
from runyard.compute.remote.placements import Placements
from runyard.planning.vm_sizes import NodeResources
from runyard.ports.clock import Clock
from runyard.ports.engine import Site


class RaySite:
    """Site of a Ray cluster, with its bridge."""

    def __init__(
        self,
        address: str,
        home: Path,
        clock: Clock,
        *,
        url: str,
        ca: str,
        sizes: Mapping[str, NodeResources],
        on_change: Callable[[], None],
    ) -> None:
        folder = home / "ray" / quote(address, safe="")
        service = service_id(home)
        self.link = BridgeLink(address, service, folder / "bridge.log", on_event=lambda _: on_change())
        cluster, placements = RayCluster(self.link), Placements(folder / "placements")
        self.site = Site(
            name=f"ray {address}",
            engine=RayEngine(cluster, placements, lambda: {"url": url, "ca": ca}),
            pool=RayPool(cluster, service, clock, placements, sizes),
            url=url,
        )

    def close(self) -> None:
        self.link.close()
