from runyard.compute.fields import NoFields
from runyard.compute.kind import ComputeKind, SiteNeeds, SiteParts
from runyard.compute.local.engine import LocalEngine
from runyard.compute.local.pool import LocalPool
from runyard.ports.engine import Disk


def _make(target: NoFields, settings: NoFields, needs: SiteNeeds) -> SiteParts:
    engine = LocalEngine(needs.home)
    return SiteParts(engine, LocalPool(needs.nodes, needs.clock), needs.url, warm=engine.warm)


KIND = ComputeKind(
    name="local",
    title="This machine",
    target=NoFields,
    settings=NoFields,
    make=_make,
    disk=Disk.SERVICE,
    shown=lambda target: "this machine",
)
