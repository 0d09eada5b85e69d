from collections.abc import Iterator
from dataclasses import dataclass

from runyard.core.definitions.dataset import DatasetDefinition
from runyard.errors import NotFound
from runyard.model.assets import AssetKind
from runyard.model.plan import DataItem
from runyard.model.runs import RunId, RunRecord
from runyard.planning.data_patterns import fixed_part
from runyard.ports.stores import AssetStore, RunStore
from runyard.services.data.data_named import planned_data
from runyard.services.data.recent import Recent

_MOST_REMEMBERED, _REMEMBERED_SECONDS = 512, 600.0


@dataclass(frozen=True)
class Reach:
    """Folder of a datastore that a node may read, and write if `is_writable`; "" is the whole datastore."""

    datastore: str
    folder: str
    is_writable: bool

    def holds(self, path: str) -> bool:
        return not self.folder or path == self.folder or path.startswith(f"{self.folder}/")


class NodeReach:
    """Which folders of datastores the nodes of a run may use: those with the data of the run."""

    def __init__(self, runs: RunStore, assets: AssetStore) -> None:
        self._runs, self._assets = runs, assets
        self._recent: Recent[RunId, tuple[str, tuple[Reach, ...]]] = Recent(_MOST_REMEMBERED, _REMEMBERED_SECONDS)

    def allows(self, run_id: RunId, workspace: str, datastore: str, path: str | None, *, writes: bool = False) -> bool:
        """Whether the nodes of a run may use a path: a file or the prefix of a listing; None for any path."""
        own, reaches = self._reaches(run_id)
        if workspace != own:
            return False
        return any(
            reach.datastore == datastore and (path is None or reach.holds(path)) and (reach.is_writable or not writes)
            for reach in reaches
        )

    def _reaches(self, run_id: RunId) -> tuple[str, tuple[Reach, ...]]:
        found = self._recent.get(run_id)
        if found is None:
            run = self._runs.get(run_id)
            items = planned_data(self._assets, run.workspace, run.id, run.definition)
            found = run.workspace, tuple(reach for item in items for reach in self._of_item(run, item))
            self._recent.put(run_id, found)
        return found

    def _of_item(self, run: RunRecord, item: DataItem) -> Iterator[Reach]:
        if item.kind == "output":
            yield Reach(item.datastore, item.path.strip("/"), is_writable=True)
        elif item.kind == "reference":
            # A mounted reference shows the whole datastore, as in earlier versions, so its token allows that too.
            yield Reach(item.datastore, "" if item.mode == "mount" else item.path.strip("/"), is_writable=True)
        else:
            try:
                dataset = self._assets.get_by_id(run.workspace, AssetKind.DATASET, item.dataset_id)
            except NotFound:
                return
            for source in DatasetDefinition(dataset.body).sources:
                if source.datastore:
                    yield Reach(source.datastore, fixed_part(source.path).strip("/"), is_writable=False)
