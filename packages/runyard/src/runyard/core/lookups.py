from runyard.core.errors import NotFound
from runyard.core.ports.stores import AssetStore, RunStore
from runyard.core.records.assets import Asset, AssetKind
from runyard.core.records.runs import RunId, RunRecord


def find_run(runs: RunStore, run_id: RunId) -> RunRecord | None:
    """The run, or None where `get` raises NotFound."""
    try:
        return runs.get(run_id)
    except NotFound:
        return None


def find_asset(
    assets: AssetStore, workspace: str, kind: AssetKind, name: str, version: int | None = None
) -> Asset | None:
    """The named version, or the latest; None where `get` raises NotFound."""
    try:
        return assets.get(workspace, kind, name, version)
    except NotFound:
        return None
