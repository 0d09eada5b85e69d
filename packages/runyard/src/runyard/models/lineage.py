from dataclasses import dataclass

from runyard.assets.model_users import services_with_model
from runyard.assets.registry import Assets
from runyard.core.definitions.assets import ModelDefinition
from runyard.core.errors import NotFound
from runyard.core.ports.stores import AssetStore, RunStore
from runyard.core.principal import Principal
from runyard.core.records.assets import Asset, AssetKind
from runyard.core.records.runs import RunId, RunRecord
from runyard.data.datasets.lineage import Lineage


@dataclass(frozen=True)
class ReadDataset:
    """What the run of a model has read."""

    dataset_id: str
    name: str | None
    version: int | None
    direction: str = "input"


@dataclass(frozen=True)
class NamedDataset:
    """What a model was registered with."""

    dataset_id: str
    name: str
    version: int
    scenario: str


@dataclass(frozen=True)
class ModelLineage:
    """The run and datasets that made a model, and the web services that serve it."""

    model: Asset
    run: RunRecord | None
    """None for a model registered from files, and when its run was deleted."""
    datasets: tuple[ReadDataset | NamedDataset, ...]
    services: tuple[Asset, ...]


class ModelLineages:
    def __init__(self, assets: Assets, store: AssetStore, runs: RunStore, lineage: Lineage) -> None:
        self._assets, self._store, self._runs, self._lineage = assets, store, runs, lineage

    def of(self, who: Principal, workspace: str, name: str, version: int | None) -> ModelLineage:
        """Raises NotFound."""
        model = self._assets.get(who, workspace, AssetKind.MODEL, name, version)
        run = self._run_of(model)
        return ModelLineage(
            model=model,
            run=run,
            datasets=(*self._read_by(who, run), *self._registered_with(model)),
            services=tuple(services_with_model(self._store, workspace, name, model.version)),
        )

    def _run_of(self, model: Asset) -> RunRecord | None:
        try:
            run = self._runs.get(RunId(ModelDefinition(model.body).run_id))
        except NotFound:
            return None
        return run if run.workspace == model.workspace else None

    def _read_by(self, who: Principal, run: RunRecord | None) -> list[ReadDataset]:
        inputs = self._lineage.of_run(who, run)[0] if run is not None else ()
        return [ReadDataset(one.dataset_id, one.name, one.version) for one in inputs]

    def _registered_with(self, model: Asset) -> list[NamedDataset]:
        found = []
        for scenario, dataset_id in ModelDefinition(model.body).datasets:
            try:
                dataset = self._store.get_by_id(model.workspace, AssetKind.DATASET, dataset_id)
            except NotFound:
                continue
            found.append(NamedDataset(dataset.id, dataset.name, dataset.version, scenario))
        return found
