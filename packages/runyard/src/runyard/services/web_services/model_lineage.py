from dataclasses import dataclass
from typing import Any

from runyard.errors import NotFound
from runyard.model.assets import Asset, AssetKind
from runyard.model.runs import RunId, RunRecord
from runyard.ports.stores import AssetStore, RunStore
from runyard.services.assets import Assets
from runyard.services.data.lineage import Lineage
from runyard.services.web_services.deployed_models import services_of


@dataclass(frozen=True)
class ModelLineage:
    """From a model back to what made it, and forth to what serves it."""

    model: Asset
    run: RunRecord | None
    """None for a model that was registered from files, and where its run is gone."""
    datasets: tuple[dict[str, Any], ...]
    """With "direction" those that the run read, with "scenario" those that the model was registered with."""
    services: tuple[Asset, ...]


class ModelLineages:
    def __init__(self, assets: Assets, store: AssetStore, runs: RunStore, lineage: Lineage) -> None:
        self._assets, self._store, self._runs, self._lineage = assets, store, runs, lineage

    def of(self, workspace: str, name: str, version: int | None) -> ModelLineage:
        """Raises NotFound."""
        model = self._assets.get(workspace, AssetKind.MODEL, name, version)
        run = self._run_of(model)
        return ModelLineage(
            model=model,
            run=run,
            datasets=(*self._read_by(run), *self._registered_with(model)),
            services=tuple(services_of(self._store, workspace, name, model.version)),
        )

    def _run_of(self, model: Asset) -> RunRecord | None:
        try:
            run = self._runs.get(RunId(str(model.body.get("run_id") or "")))
        except NotFound:
            return None
        return run if run.workspace == model.workspace else None

    def _read_by(self, run: RunRecord | None) -> list[dict[str, Any]]:
        inputs = self._lineage.of_run(run.id)[0] if run is not None else ()
        return [
            {"dataset_id": one.dataset_id, "name": one.name, "version": one.version, "direction": "input"}
            for one in inputs
        ]

    def _registered_with(self, model: Asset) -> list[dict[str, Any]]:
        """Its `datasets` are pairs of a scenario and an id; anybody may have written them otherwise."""
        pairs = model.body.get("datasets")
        found = []
        for pair in pairs if isinstance(pairs, list) else ():
            if isinstance(pair, list) and len(pair) == 2:
                try:
                    dataset = self._store.get_by_id(model.workspace, AssetKind.DATASET, str(pair[1]))
                except NotFound:
                    continue
                about = {"dataset_id": dataset.id, "name": dataset.name, "version": dataset.version}
                found.append({**about, "scenario": str(pair[0])})
        return found
