from runyard.core.ports.stores import AssetStore
from runyard.core.records.assets import AssetKind
from runyard.core.records.runs import RunRecord
from runyard.data.datasets.lineage import Lineage


class DirectInputs:
    """Records the datasets that a script opens itself (mode `direct`). Others are recorded when a node stages them."""

    def __init__(self, assets: AssetStore, lineage: Lineage) -> None:
        self._assets, self._lineage = assets, lineage

    def record(self, run: RunRecord) -> None:
        """Record that the run reads its direct inputs. Safe to repeat."""
        found = {
            name: (self._assets.get_by_id(run.workspace, AssetKind.DATASET, one.dataset_id), "Direct")
            for name, one in run.definition.data.items()
            if one.mode == "direct"
        }
        if found:
            self._lineage.record_inputs(run.id, found)
