from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from runyard.access.authorization import Access
from runyard.core.errors import NotFound
from runyard.core.expiring_cache import ExpiringCache
from runyard.core.policy import Action
from runyard.core.ports.clock import Clock
from runyard.core.ports.stores import AssetStore, LineageStore, RunStore
from runyard.core.principal import Principal, Role
from runyard.core.records.assets import Asset, AssetKind
from runyard.core.records.lineage import REFERENCE, DatasetUse, Direction
from runyard.core.records.runs import RunId, RunRecord

REMEMBERED_LOOKUPS = 4096
REMEMBERED_SECONDS = 3600.0


@dataclass(frozen=True)
class LineageInput:
    dataset_id: str
    name: str
    version: int
    input_name: str
    mode: str


@dataclass(frozen=True)
class LineageOutput:
    dataset_id: str
    name: str
    version: int
    output_name: str


@dataclass(frozen=True)
class LineageRun:
    run_id: RunId
    experiment: str
    direction: Direction
    name: str
    mode: str
    at: datetime


@dataclass(frozen=True)
class LineageModel:
    name: str
    version: int
    run_id: str


class Lineage:
    """Records which dataset versions runs read and wrote, and finds the models that came from them."""

    def __init__(self, uses: LineageStore, assets: AssetStore, runs: RunStore, clock: Clock, access: Access) -> None:
        self._uses, self._assets, self._runs, self._clock, self._access = uses, assets, runs, clock, access
        self._noted: ExpiringCache[tuple[str, str], bool] = ExpiringCache(REMEMBERED_LOOKUPS, REMEMBERED_SECONDS)

    def record_inputs(self, run_id: RunId, datasets: Mapping[str, tuple[Asset, str]]) -> None:
        """Record the inputs of a run: (dataset, mode) by input name; mode is "Mount", "Download" or "Direct"."""
        self._uses.record([self._use(run_id, Direction.INPUT, name, *given) for name, given in datasets.items()])

    def record_lookup(self, who: Principal, asset: Asset) -> Asset:
        """Record that a run read the dataset if its script asked for it. Returns the asset; cheap to repeat."""
        self._access.asset(who, Action.READ_ASSET, asset)
        if asset.kind is AssetKind.DATASET and who.role is Role.RUN and who.run_id is not None:
            noted = (who.run_id, asset.id)
            if self._noted.get(noted) is None:
                self._uses.record([self._use(who.run_id, Direction.INPUT, "", asset, REFERENCE)])
                self._noted.put(noted, True)
        return asset

    def record_output(self, run_id: RunId, output_name: str, dataset: Asset, mode: str) -> None:
        self._uses.record([self._use(run_id, Direction.OUTPUT, output_name, dataset, mode)])

    def of_run(self, who: Principal, run: RunRecord) -> tuple[Sequence[LineageInput], Sequence[LineageOutput]]:
        """Inputs and outputs of a run."""
        self._access.record(who, Action.READ_RUN, run)
        uses = self._uses.of_run(run.id)
        inputs = [
            LineageInput(use.dataset_id, use.dataset_name, use.dataset_version, use.name, use.mode)
            for use in uses
            if use.direction is Direction.INPUT
        ]
        outputs = [
            LineageOutput(use.dataset_id, use.dataset_name, use.dataset_version, use.name)
            for use in uses
            if use.direction is Direction.OUTPUT
        ]
        return inputs, outputs

    def of_dataset(self, who: Principal, dataset: Asset) -> tuple[Sequence[LineageRun], Sequence[LineageModel]]:
        """Runs that read or wrote the dataset, and models that its readers made or that name it as training data."""
        self._access.asset(who, Action.READ_ASSET, dataset)
        uses = self._uses.of_dataset(dataset.id)
        runs = [
            LineageRun(use.run_id, self._experiment(use.run_id), use.direction, use.name, use.mode, use.at)
            for use in uses
        ]
        readers = {use.run_id for use in uses if use.direction is Direction.INPUT}
        models = [
            LineageModel(model.name, model.version, str(model.body.get("run_id") or ""))
            for model in self._assets.list(dataset.workspace, AssetKind.MODEL)
            if model.body.get("run_id") in readers or _is_trained_on(model, dataset.id)
        ]
        return runs, models

    def _use(self, run_id: RunId, direction: Direction, name: str, dataset: Asset, mode: str) -> DatasetUse:
        return DatasetUse(run_id, direction, name, dataset.id, dataset.name, dataset.version, mode, self._clock.now())

    def _experiment(self, run_id: RunId) -> str:
        try:
            return self._runs.get(run_id).experiment
        except NotFound:  # deleted just now
            return ""


def _is_trained_on(model: Asset, dataset_id: str) -> bool:
    """Whether `datasets` of the model, pairs of scenario and id, names the dataset. Users may have written anything."""
    named = model.body.get("datasets")
    pairs = named if isinstance(named, list) else ()
    return any(isinstance(pair, list) and len(pair) == 2 and pair[1] == dataset_id for pair in pairs)
