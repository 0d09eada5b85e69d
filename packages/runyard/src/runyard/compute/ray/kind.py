from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from runyard.compute.fields import option
from runyard.compute.kind import ComputeKind, SiteNeeds, SiteParts
from runyard.compute.ray.address import parse_address
from runyard.compute.ray.attaching import check_address
from runyard.compute.ray.site import RaySite
from runyard.errors import InvalidArgument
from runyard.model.findings import Finding, Level

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


def _findings() -> Sequence[Finding]:
    try:
        return [Finding("Ray", Level.OK, f"ray {version('ray')}")]
    except PackageNotFoundError:
        remedy = "To run on Ray clusters: pip install 'runyard[ray]'"
        return [Finding("Ray", Level.LACKS, "not installed", remedy)]


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
