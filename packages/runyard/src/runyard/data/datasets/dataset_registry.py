import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from runyard.access.authorization import Access
from runyard.assets.kinds import PlainKind
from runyard.assets.workspaces import Workspaces
from runyard.core.definitions.dataset import DatasetDefinition
from runyard.core.definitions.fields import Tags
from runyard.core.errors import AlreadyExists, InvalidArgument, NotFound
from runyard.core.expiring_cache import ExpiringCache
from runyard.core.lookups import find_asset
from runyard.core.names import check_asset_name
from runyard.core.policy import Action
from runyard.core.ports.data import DataStore
from runyard.core.ports.stores import AssetStore
from runyard.core.principal import Principal
from runyard.core.records.assets import Asset, AssetKind
from runyard.core.records.data import NetworkRules
from runyard.data.datasets.datastore_files import DatastoreFiles
from runyard.data.datasets.network_policy import NetworkPolicy
from runyard.data.datasets.open_datastores import OpenDatastores
from runyard.data.datasets.pins import Pins
from runyard.data.datasets.resolution import Resolved, Resolver, file_steps
from runyard.data.datasets.steps import FoundFile
from runyard.storage.blobs.content import FileContent

REMEMBERED_SECONDS = 60.0
REMEMBERED_DATASETS = 8


@dataclass(frozen=True)
class NewDataset:
    name: str
    """"" for a dataset that is saved and not registered."""
    definition: DatasetDefinition
    tags: Tags = field(default_factory=dict)
    validate: bool = True
    create_new_version: bool = False
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ResolvedDataset:
    """Files of a saved dataset as they are now, and what changed since its version was made."""

    resolved: Resolved
    changes: Sequence[str]


class Datasets:
    """Use cases of saved datasets. Each version has a pin: a record of the files that it saw."""

    def __init__(
        self,
        assets: AssetStore,
        workspaces: Workspaces,
        stores: OpenDatastores,
        files: DatastoreFiles,
        pins: Pins,
        network: NetworkPolicy,
        access: Access,
    ) -> None:
        self._assets, self._workspaces, self._stores, self._files = assets, workspaces, stores, files
        self._pins, self._network, self._access, self._resolver = pins, network, access, Resolver(stores)
        self._recent: ExpiringCache[tuple[str, str], dict[str, FoundFile]] = ExpiringCache(
            REMEMBERED_DATASETS, REMEMBERED_SECONDS
        )
        # Only one service process uses a home, so a lock here is enough to number versions.
        self._writing = threading.Lock()

    def save(self, who: Principal, workspace: str, new: NewDataset) -> Asset:
        """Save a dataset, with a pin of its current files if `validate`.

        The same definition and data again return the existing version. Raises AlreadyExists for another one under the
        same name, unless `create_new_version`.
        """
        self._workspaces.enter(who, Action.CREATE_ASSET, workspace)
        if new.name:
            check_asset_name(AssetKind.DATASET, new.name)
        made = new.definition
        file_steps(made)  # checked even without `validate`
        if new.validate:
            self._access.workspace(who, Action.READ_DATASET, workspace)
            resolved = self._resolver.resolve(workspace, made, self._network.for_request(new.variables))
            made = made.with_pin(self._pins.make(resolved.files))
        with self._writing:
            there = find_asset(self._assets, workspace, AssetKind.DATASET, new.name)
            if there is not None and _is_same(DatasetDefinition(there.body), made):
                return there
            if there is not None and new.name and not new.create_new_version:
                raise _taken(there, made)
            return self._assets.add(workspace, AssetKind.DATASET, new.name, made.raw, new.tags, who.name)

    def get(self, who: Principal, workspace: str, dataset_id: str) -> Asset:
        self._access.workspace(who, Action.READ_ASSET, workspace)
        try:
            return self._assets.get_by_id(workspace, AssetKind.DATASET, dataset_id)
        except NotFound:
            raise NotFound(
                f"There is no dataset with id {ascii(dataset_id)[:80]} in workspace {workspace!r}.",
                hint="Was it unregistered?",
            ) from None

    def resolve(
        self,
        who: Principal,
        workspace: str,
        definition: DatasetDefinition,
        variables: Mapping[str, str],
        most: int | None = None,
    ) -> Resolved:
        """Files of a definition that is not saved. With `most`, only the first few, to check that there are any."""
        self._workspaces.enter(who, Action.READ_DATASET, workspace)
        return self._resolver.resolve(workspace, definition, self._network.for_request(variables), most)

    def resolve_saved(self, who: Principal, dataset: Asset, rules: NetworkRules) -> ResolvedDataset:
        """Current files of a saved dataset, and how they differ from its pin."""
        self._access.asset(who, Action.READ_DATASET, dataset)
        saved = DatasetDefinition(dataset.body)
        resolved = self._resolver.resolve(dataset.workspace, saved, rules)
        self._recent.put((dataset.workspace, dataset.id), {file.source.path: file for file in resolved.files})
        return ResolvedDataset(resolved, self._pins.changes(saved.pin, resolved.files))

    def resolve_saved_now(self, who: Principal, dataset: Asset, variables: Mapping[str, str]) -> ResolvedDataset:
        """Like `resolve_saved`, for a request of a user with these proxy variables."""
        return self.resolve_saved(who, dataset, self._network.for_request(variables))

    def open(
        self, who: Principal, workspace: str, dataset_id: str, path: str, variables: Mapping[str, str] | None = None
    ) -> FileContent:
        """Open one file of a saved dataset, by a listing of the last minute if there is one.

        Reading a remote file that has changed since raises SourceChanged. `variables` are the proxies and certificates
        of the caller.
        """
        self._access.workspace(who, Action.READ_DATASET, workspace)
        rules = self._network.for_request(variables or {})
        found = (self._recent.get((workspace, dataset_id)) or {}).get(path)
        if found is not None:
            store = self._stores.open(workspace, found.source.store, rules)
            if not _is_stale(store, found):
                return self._files.content(store, found.stored)
        self.resolve_saved(who, self.get(who, workspace, dataset_id), rules)
        found = (self._recent.get((workspace, dataset_id)) or {}).get(path)
        if found is None:
            raise NotFound(f"The dataset has no file {ascii(path)[:200]}.", hint="to_path() lists its files.")
        return self._files.content(self._stores.open(workspace, found.source.store, rules), found.stored)


class DatasetRules(PlainKind[DatasetDefinition]):
    """Rules of changes: of a version only description and properties can change."""

    def checked_change(self, who: Principal, seen: Asset, changed: DatasetDefinition) -> DatasetDefinition:
        before, checked = DatasetDefinition(seen.body), DatasetDefinition.parse(changed.raw)
        file_steps(checked)
        if not checked.means_the_same(before) or changed.raw.get("pin") != before.raw.get("pin"):
            raise InvalidArgument(
                f"What version {seen.version} of dataset {seen.name!r} is made of cannot be changed.",
                hint="Register a new version, with create_new_version=True.",
            )
        return checked.with_pin(before.pin)


def _is_stale(store: DataStore, file: FoundFile) -> bool:
    """Whether a remembered file has changed. Checked on local disks only: on others it would double the requests."""
    if store.local_root is None:
        return False
    try:
        return store.stat(file.source.key).etag != file.source.etag
    except NotFound:
        return True


def _is_same(there: DatasetDefinition, made: DatasetDefinition) -> bool:
    if not there.means_the_same(made):
        return False
    return made.manifest is None or made.manifest == there.manifest


def _taken(there: Asset, made: DatasetDefinition) -> AlreadyExists:
    is_same = DatasetDefinition(there.body).means_the_same(made)
    other = "of other files" if is_same else "with another definition"
    return AlreadyExists(
        f"There is a dataset {there.name!r} already, version {there.version}, {other}.",
        hint="Pass create_new_version=True to register this one as its next version.",
    )
