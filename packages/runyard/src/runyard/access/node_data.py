from collections.abc import Iterator
from dataclasses import dataclass

from runyard.core.data_plan import plan_run_data
from runyard.core.definitions.dataset import DatasetDefinition
from runyard.core.errors import NotFound
from runyard.core.expiring_cache import ExpiringCache
from runyard.core.path_patterns import fixed_part
from runyard.core.ports.stores import AssetStore, RunStore
from runyard.core.records.assets import AssetKind
from runyard.core.records.launch_plan import DataItem
from runyard.core.records.runs import RunId, RunRecord

_MOST_REMEMBERED, _REMEMBERED_SECONDS = 512, 600.0


@dataclass(frozen=True)
class FolderGrant:
    """Folder of a datastore that a node may read, and write if `is_writable`; "" is the whole datastore."""

    datastore: str
    folder: str
    is_writable: bool

    def holds(self, path: str) -> bool:
        return not self.folder or path == self.folder or path.startswith(f"{self.folder}/")


class NodeDataAccess:
    """Which folders of datastores the nodes of a run may use: those with the data of the run."""

    def __init__(self, runs: RunStore, assets: AssetStore) -> None:
        self._runs, self._assets = runs, assets
        self._recent: ExpiringCache[RunId, tuple[str, tuple[FolderGrant, ...]]] = ExpiringCache(
            _MOST_REMEMBERED, _REMEMBERED_SECONDS
        )

    def allows(self, run_id: RunId, workspace: str, datastore: str, path: str | None, *, writes: bool = False) -> bool:
        """Whether the nodes of a run may use a path: a file or the prefix of a listing; None for any path."""
        own, reaches = self._reaches(run_id)
        if workspace != own:
            return False
        return any(
            reach.datastore == datastore and (path is None or reach.holds(path)) and (reach.is_writable or not writes)
            for reach in reaches
        )

    def _reaches(self, run_id: RunId) -> tuple[str, tuple[FolderGrant, ...]]:
        found = self._recent.get(run_id)
        if found is None:
            run = self._runs.get(run_id)
            items = plan_run_data(self._assets, run.workspace, run.id, run.definition)
            found = run.workspace, tuple(reach for item in items for reach in self._of_item(run, item))
            self._recent.put(run_id, found)
        return found

    def _of_item(self, run: RunRecord, item: DataItem) -> Iterator[FolderGrant]:
        if item.kind == "output":
            yield FolderGrant(item.datastore, item.path.strip("/"), is_writable=True)
        elif item.kind == "reference":
            # A mounted reference shows the whole datastore, as in earlier versions, so its token allows that too.
            yield FolderGrant(item.datastore, "" if item.mode == "mount" else item.path.strip("/"), is_writable=True)
        else:
            try:
                dataset = self._assets.get_by_id(run.workspace, AssetKind.DATASET, item.dataset_id)
            except NotFound:
                return
            for source in DatasetDefinition(dataset.body).sources:
                if source.datastore:
                    yield FolderGrant(source.datastore, fixed_part(source.path).strip("/"), is_writable=False)
