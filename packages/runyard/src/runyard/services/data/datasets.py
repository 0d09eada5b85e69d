import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from runyard.core.definitions.dataset import DatasetDefinition
from runyard.core.definitions.fields import Tags
from runyard.core.policy import Action
from runyard.core.principal import Principal
from runyard.errors import AlreadyExists, InvalidArgument, NotFound
from runyard.model.assets import Asset, AssetKind
from runyard.model.data import NetworkRules
from runyard.model.names import check_asset_name
from runyard.planning.data_steps import FoundFile
from runyard.ports.data import DataStore
from runyard.ports.stores import AssetStore
from runyard.services.access import Access
from runyard.services.content import Content
from runyard.services.data.network import Network
from runyard.services.data.open_stores import OpenStores
from runyard.services.data.pinning import Pins
from runyard.services.data.recent import Recent
from runyard.services.data.resolving import Resolved, Resolver, file_steps
from runyard.services.data.store_files import StoreFiles
from runyard.services.kinds import PlainKind
from runyard.services.workspaces import Workspaces

REMEMBERED_SECONDS = 60.0
REMEMBERED_DATASETS = 8


@dataclass(frozen=True)
class NewDataset:
    name: str
    """"" for one that is only saved."""
    definition: DatasetDefinition
    tags: Tags = field(default_factory=dict)
    validate: bool = True
    create_new_version: bool = False
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Seen:
    """The files of a dataset as they are now, and what is other than when its version was made."""

    resolved: Resolved
    changes: Sequence[str]


class Datasets:
    """Saved datasets: definitions whose every version pins what it saw."""

    def __init__(
        self,
        assets: AssetStore,
        workspaces: Workspaces,
        stores: OpenStores,
        files: StoreFiles,
        pins: Pins,
        network: Network,
        access: Access,
    ) -> None:
        self._assets, self._workspaces, self._stores, self._files = assets, workspaces, stores, files
        self._pins, self._network, self._access, self._resolver = pins, network, access, Resolver(stores)
        self._recent: Recent[tuple[str, str], dict[str, FoundFile]] = Recent(REMEMBERED_DATASETS, REMEMBERED_SECONDS)
        # One service owns a home, so a lock in it is enough to keep versions apart.
        self._writing = threading.Lock()

    def save(self, who: Principal, workspace: str, new: NewDataset) -> Asset:
        """The asset, pinned to what is there now unless not to be validated. The same definition of the same data
        again is the version that is there; AlreadyExists for another one unless `create_new_version`."""
        self._workspaces.enter(who, Action.CREATE_ASSET, workspace)
        if new.name:
            check_asset_name(AssetKind.DATASET, new.name)
        made = new.definition
        file_steps(made)  # also of one that is not validated
        if new.validate:
            self._access.workspace(who, Action.READ_DATASET, workspace)
            resolved = self._resolver.resolve(workspace, made, self._network.for_request(new.variables))
            made = made.with_pin(self._pins.make(resolved.files))
        with self._writing:
            there = self._latest(workspace, new.name)
            if there is not None and _says_the_same(DatasetDefinition(there.body), made):
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
        """The files that a definition means, unsaved; with `most` the first few, to see that there are any."""
        self._workspaces.enter(who, Action.READ_DATASET, workspace)
        return self._resolver.resolve(workspace, definition, self._network.for_request(variables), most)

    def look(self, who: Principal, dataset: Asset, rules: NetworkRules) -> Seen:
        """The files of a saved one."""
        self._access.asset(who, Action.READ_DATASET, dataset)
        saved = DatasetDefinition(dataset.body)
        resolved = self._resolver.resolve(dataset.workspace, saved, rules)
        self._recent.put((dataset.workspace, dataset.id), {file.source.path: file for file in resolved.files})
        return Seen(resolved, self._pins.changes(saved.pin, resolved.files))

    def look_now(self, who: Principal, dataset: Asset, variables: Mapping[str, str]) -> Seen:
        return self.look(who, dataset, self._network.for_request(variables))

    def open(
        self, who: Principal, workspace: str, dataset_id: str, path: str, variables: Mapping[str, str] | None = None
    ) -> Content:
        """One file of a saved dataset. A listing of a moment ago is good enough; where the file is another by now, and
        it is remote, reading it is SourceChanged. `variables` are the proxies and certificates of whoever asks."""
        self._access.workspace(who, Action.READ_DATASET, workspace)
        rules = self._network.for_request(variables or {})
        found = (self._recent.get((workspace, dataset_id)) or {}).get(path)
        if found is not None:
            store = self._stores.open(workspace, found.source.store, rules)
            if not _is_stale(store, found):
                return self._files.content(store, found.stored)
        self.look(who, self.get(who, workspace, dataset_id), rules)
        found = (self._recent.get((workspace, dataset_id)) or {}).get(path)
        if found is None:
            raise NotFound(f"The dataset has no file {ascii(path)[:200]}.", hint="to_path() lists its files.")
        return self._files.content(self._stores.open(workspace, found.source.store, rules), found.stored)

    def _latest(self, workspace: str, name: str) -> Asset | None:
        try:
            return self._assets.get(workspace, AssetKind.DATASET, name)
        except NotFound:
            return None


class DatasetRules(PlainKind[DatasetDefinition]):
    """A version never changes but for its description and properties."""

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
    """Looked at on this machine's disks alone: elsewhere that would double the requests of a download."""
    if store.local_root is None:
        return False
    try:
        return store.stat(file.source.key).etag != file.source.etag
    except NotFound:
        return True


def _says_the_same(there: DatasetDefinition, made: DatasetDefinition) -> bool:
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
