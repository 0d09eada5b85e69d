from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from urllib.parse import quote

from runyard.compute.fields import option
from runyard.compute.kind import ComputeKind, SiteNeeds, SiteParts
from runyard.compute.ray.address import parse_address, require_ray
from runyard.compute.ray.cluster_client import RayCluster
from runyard.compute.ray.engine import RayEngine
from runyard.compute.ray.link import BridgeLink
from runyard.compute.ray.names import service_id
from runyard.compute.ray.pool import RayPool
from runyard.compute.remote.nodes import Placements
from runyard.compute.vm_sizes import NodeResources
from runyard.core.errors import EngineError, InvalidArgument
from runyard.core.ports.clock import Clock
from runyard.core.ports.engine import Site
from runyard.core.records.health import HealthFinding, HealthLevel
from runyard.core.version import VERSION

_ATTACH_HELP = """Attach a Ray cluster, so that runs can be sent to it by this name.

Ray's Python on every node needs: pip install "runyard[ray]". Where the nodes are other machines, they must reach
this service: runyard serve --listen HOST:PORT --tls-cert FILE --tls-key FILE. The address is tried at once.

\b
Examples:
  runyard compute attach ray trainers --address 10.0.0.5:6379 --cpu 8
  runyard compute attach ray gpus --address 10.0.0.5:6379 --gpu 1 --memory-gb 32 --max-nodes 4
"""


@dataclass(frozen=True)
class RayTarget:
    """A compute target on Ray. Without an address it is on the cluster of the operator's settings."""

    address: str = option("HOST:PORT of the Ray head, as `ray start --head` prints it.", "", is_required=True)

    def __post_init__(self) -> None:
        if self.address:
            object.__setattr__(self, "address", parse_address(self.address))


@dataclass(frozen=True)
class RaySettings:
    address: str = option("HOST:PORT of the head of the cluster that targets without an address are on.", "")

    def __post_init__(self) -> None:
        if self.address:
            object.__setattr__(self, "address", parse_address(self.address))


def _place(target: RayTarget, settings: RaySettings) -> str:
    if not (target.address or settings.address):
        raise InvalidArgument(
            "The compute target has no address, and RUNYARD_RAY_ADDRESS is not set.",
            hint="Set it to the address of the cluster's head, as in ray-head.example:6379.",
        )
    return target.address or settings.address


def _make(target: RayTarget, settings: RaySettings, needs: SiteNeeds) -> SiteParts:
    made = RaySite(
        _place(target, settings),
        needs.home,
        needs.clock,
        url=needs.node_url,
        ca=needs.node_ca,
        sizes=needs.sizes,
        on_change=needs.on_change,
    )
    return SiteParts(made.site.engine, made.site.pool, needs.node_url, warm=made.link.start, close=made.close)


def _require(target: RayTarget, settings: RaySettings, home: Path) -> None:
    check_address(home, _place(target, settings))


def _findings() -> Sequence[HealthFinding]:
    try:
        return [HealthFinding("Ray", HealthLevel.OK, f"ray {version('ray')}")]
    except PackageNotFoundError:
        remedy = "To run on Ray clusters: pip install 'runyard[ray]'"
        return [HealthFinding("Ray", HealthLevel.LACKS, "not installed", remedy)]


KIND = ComputeKind(
    name="ray",
    title="Ray",
    target=RayTarget,
    settings=RaySettings,
    make=_make,
    place=_place,
    require=_require,
    attached_as="Ray",
    attach_help=_ATTACH_HELP,
    shown=lambda target: f"Ray at {target.address}" if target.address else "Ray",
    findings=_findings,
)


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


_CONNECT_SECONDS = 30.0
_HELLO_SECONDS = 30.0


def check_address(home: Path, address: str) -> None:
    """Check that a Ray cluster answers there and each of its nodes has this version of Runyard.

    Takes seconds. Raises InvalidArgument for a malformed address, EngineError with what is missing.
    """
    place = parse_address(address)
    require_ray(place)
    link = BridgeLink(place, service_id(home), home / "ray" / "bridge.log")
    try:
        check_cluster(RayCluster(link))
    finally:
        link.close()


def check_cluster(cluster: RayCluster) -> None:
    state = cluster.refresh(patience_seconds=_CONNECT_SECONDS)
    nodes = [node for node in state.nodes if node.is_alive]
    if not nodes:
        raise EngineError(f"The Ray cluster at {cluster.link.address} has no living node.")
    for answer in cluster.ask([(node, {"op": "hello", "version": VERSION}) for node in nodes], seconds=_HELLO_SECONDS):
        if isinstance(answer, EngineError):
            raise answer
