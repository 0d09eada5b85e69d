from runyard.model.assets import AssetKind
from runyard.model.runs import RunRecord
from runyard.ports.stores import AssetStore
from runyard.services.data.lineage import Lineage


class DirectInputs:
    """Datasets that a script opens by itself. The others are recorded when they are brought."""

    def __init__(self, assets: AssetStore, lineage: Lineage) -> None:
        self._assets, self._lineage = assets, lineage

    def record(self, run: RunRecord) -> None:
        """That the run reads them. Safe to repeat."""
        found = {
            name: (self._assets.get_by_id(run.workspace, AssetKind.DATASET, one.dataset_id), "Direct")
            for name, one in run.definition.data.items()
            if one.mode == "direct"
        }
        if found:
            self._lineage.read(run.id, found)
