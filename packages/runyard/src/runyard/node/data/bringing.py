"""Data brought into a run before its script starts: bound or linked where it lies here, served or fetched else."""

import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from runyard.errors import DataFailed, NotFound
from runyard.model.data import DataForAttempt, DatasetFiles, SourceFile
from runyard.model.plan import DataItem
from runyard.mounting import MountUnavailable, ReadOnlyMount, WritableMount, start_mounts
from runyard.node.data.brought import Brought, Upload
from runyard.node.data.fetching import CACHE, Fetch, OpenStores, fetch_all, files_at
from runyard.node.data.laying import lay_copies, lay_links
from runyard.node.data.marks import marks_below
from runyard.node.data.place import Place, naming
from runyard.node.processes import identify

_LOCAL = "folder"


def bring_all(items: Sequence[DataItem], data: DataForAttempt, place: Place) -> Brought:
    """Have every item at hand for the script. Safe to repeat for the same attempt.

    Raises RunyardError naming the item that cannot be had, and why.
    """
    bringing = _Bringing(data, place)
    for item in items:
        with naming(item):
            bringing.begin(item)
    bringing.serve()
    bringing.fetch()
    for item in items:
        with naming(item):
            bringing.put_where_wished(item)
    bringing.brought.binds = place.mounts.binds
    return bringing.brought


class _Bringing:
    def __init__(self, data: DataForAttempt, place: Place) -> None:
        self._data, self._place = data, place
        self._roots: dict[str, Path] = {}
        self._bound_stores: dict[str, Path] = {}
        self._served: dict[str, tuple[DataItem, ReadOnlyMount | WritableMount]] = {}
        self._fetches: list[Fetch] = []
        self.brought = Brought()

    def begin(self, item: DataItem) -> None:
        """What takes a moment is done, the rest is noted."""
        if item.kind == "dataset":
            found = self._found(item)
            self.brought.notices += found.changes
            self._mount_dataset(item, found) if item.mode == "mount" else self._fetch(item, found.files)
        elif item.mode == "upload":
            self._upload_later(item, item.path, overwrite=item.overwrite)
        elif item.mode == "download":
            self._fetch_reference(item)
        elif self._data.stores[item.datastore].kind == _LOCAL:
            self._use_local_folder(item)
        else:
            self._mount_remote(item)

    def serve(self) -> None:
        """Mount what lies elsewhere; where that cannot be, it is fetched, which is said once."""
        if not self._served:
            return
        if why_not := self._place.mounts.why_not_served():
            self._fetch_instead(why_not)
            return
        mounts = [mount for _, mount in self._served.values()]
        names = {file.store for mount in mounts if isinstance(mount, ReadOnlyMount) for file in mount.files}
        names |= {mount.store for mount in mounts if isinstance(mount, WritableMount)}
        report = f"mounts-{secrets.token_hex(8)}.json"
        try:
            pid = start_mounts(
                mounts,
                {name: self._data.stores[name] for name in names},
                self._data.network,
                self._place.folder.home / CACHE,
                life=self._place.life,
                say=self._place.say,
                logs=self._place.folder.node_log,
                report=self._place.folder.root / report,
            )
        except MountUnavailable as unavailable:
            self._fetch_instead(str(unavailable))
            return
        self.brought.mount_process, self.brought.mount_report = identify(pid), report
        self.brought.served = list(self._served)
        self.brought.served_writable = [mount.name for mount in mounts if isinstance(mount, WritableMount)]
        for item, mount in self._served.values():
            self.brought.mount_points.append(str(mount.mount_point))
            self._place.mounts.show(mount.mount_point)
            if isinstance(mount, WritableMount):
                with naming(item):
                    _make_folder(Path(self.brought.paths[item.name]))

    def fetch(self) -> None:
        if self._fetches:
            fetch_all(self._fetches, self._data, self._place)
        for fetch in self._fetches:
            upload = self.brought.uploads.get(fetch.item.name)
            if upload is not None:
                upload.seen = marks_below(Path(upload.path))

    def put_where_wished(self, item: DataItem) -> None:
        """At path_on_compute, unless the item's own files lie there already."""
        wished, root = item.path_on_compute, self._roots.get(item.name)
        if not wished or root is None:
            return
        path = self.brought.paths[item.name]
        if not wished.startswith("/"):
            why_not = _linked(self._place.folder.work / wished, root)
        elif root.is_file():
            why_not = "it is one file"
        else:
            why_not = self._place.mounts.bind_elsewhere(root, Path(wished))
            if not why_not:
                self.brought.paths[item.name] = os.path.normpath(os.path.join(wished, os.path.relpath(path, root)))
        if why_not:
            self._place.say(f"path_on_compute {wished!r} of {item.name} is not made ({why_not}): it is at {path}.")

    def _found(self, item: DataItem) -> DatasetFiles:
        found = self._data.datasets[item.name]
        if not found.files and found.folder is None:
            raise DataFailed("the dataset has no files.", hint="Check the paths it was made from.")
        return found

    def _is_local(self, files: Sequence[SourceFile]) -> bool:
        return all(self._data.stores[store].kind == _LOCAL for store in {file.store for file in files})

    def _local(self, store: str) -> Path:
        root = Path(self._data.stores[store].root)
        if not root.is_dir():  # never made here: it may be a disk that is not mounted
            raise NotFound(f"{root}, the folder of datastore {store!r}, is not there.", hint="Is its disk mounted?")
        return root

    def _inside(self, store: str, path: str) -> Path:
        """A place of a local datastore. A container engine would follow a link there, which a script may have left, to
        any place of the machine."""
        root = self._local(store)
        if self._place.mounts.are_by_engine and not _lies_in(root / path, root):
            raise DataFailed(f"{path!r} of datastore {store!r} is a link that leads out of it.", hint="Copy it there.")
        return root / path

    def _mount_dataset(self, item: DataItem, found: DatasetFiles) -> None:
        if not self._is_local(found.files):
            root = self._place.mounts.of(item.name)
            self._served[item.name] = (item, ReadOnlyMount(root, found.files, item.name))
        elif not self._place.mounts.are_private:
            root = self._place.folder.data / item.name
            lay_copies(((file.path, self._local(file.store) / file.key) for file in found.files), root)
        elif found.folder is not None and not found.is_one_file:
            store, path = found.folder
            root = self._place.mounts.bind(self._inside(store, path), item.name)
        else:
            links = self._place.mounts.links / item.name
            lay_links(((file.path, self._bound(file.store) / file.key) for file in found.files), links)
            root = self._place.mounts.bind(links, item.name)
        self._keep(item, root, root / found.files[0].path if found.is_one_file else root)

    def _bound(self, store: str) -> Path:
        """A local datastore where it cannot be written to, for links to lead to."""
        if store not in self._bound_stores:
            name = f".datastore-{len(self._bound_stores)}"
            self._bound_stores[store] = self._place.mounts.bind(self._local(store), name)
        return self._bound_stores[store]

    def _fetch(self, item: DataItem, files: Sequence[SourceFile]) -> None:
        root = self._place.of(item)
        self._fetches.append(Fetch(item, root, files))
        self._keep(item, root, root)

    def _fetch_reference(self, item: DataItem) -> None:
        root = self._place.folder.work / item.datastore / (item.path_on_compute or "").strip("/")
        self._fetches.append(Fetch(item, root))
        self.brought.paths[item.name] = str(root / item.path)

    def _use_local_folder(self, item: DataItem) -> None:
        """What is written there is on the datastore at once."""
        there = self._inside(item.datastore, item.path)
        if not there.exists():
            there.mkdir(parents=True, exist_ok=True)
        self._place.mounts.show(there)
        self._keep(item, there, there)

    def _mount_remote(self, item: DataItem) -> None:
        root = self._place.mounts.of(item.name)
        path = root
        stores = OpenStores(self._data)
        if stores.is_web(item.datastore):
            files = list(files_at(item, stores))
            self._served[item.name] = (item, ReadOnlyMount(root, files, item.name))
            path = root / item.path
        elif item.kind == "output":
            self._served[item.name] = (item, WritableMount(root, item.datastore, item.path, item.name))
        else:
            self._served[item.name] = (item, WritableMount(root, item.datastore, "", item.name))
            path = root / item.path
        self._keep(item, path, path)

    def _upload_later(self, item: DataItem, prefix: str, *, overwrite: bool) -> Path:
        path = self._place.of(item)
        # A path with a suffix is where the script wants to write one file.
        (path.parent if item.kind == "reference" and path.suffix else path).mkdir(parents=True, exist_ok=True)
        self.brought.uploads[item.name] = Upload(str(path), prefix, overwrite)
        self._keep(item, path, path)
        return path

    def _fetch_instead(self, why: str) -> None:
        names = ", ".join(self._served)
        warning = f"{why.rstrip('.')}. So this data is downloaded instead of mounted: {names}."
        self._place.say(warning)
        self.brought.warnings.append(warning)
        for item, mount in self._served.values():
            if isinstance(mount, ReadOnlyMount):
                self._fetch_what_was_to_be_mounted(item, mount)
            elif item.kind == "output":
                self._upload_later(item, item.path, overwrite=True)
            else:
                self._fetch_and_upload_later(item)

    def _fetch_what_was_to_be_mounted(self, item: DataItem, mount: ReadOnlyMount) -> None:
        """At the same places below the item's own folder."""
        below = os.path.relpath(self.brought.paths[item.name], mount.mount_point)
        self._fetch(item, mount.files)
        self.brought.paths[item.name] = os.path.normpath(self._place.of(item) / below)

    def _fetch_and_upload_later(self, item: DataItem) -> None:
        root = self._upload_later(item, "", overwrite=True)
        self._fetches.append(Fetch(item, root, may_be_empty=True))
        self.brought.paths[item.name] = str(root / item.path)
        self._roots[item.name] = root / item.path

    def _keep(self, item: DataItem, root: Path, path: Path) -> None:
        self._roots[item.name] = root
        self.brought.paths[item.name] = str(path)


def _lies_in(path: Path, root: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root))


def _make_folder(path: Path) -> None:
    if not path.exists():
        path.mkdir(parents=True, exist_ok=True)


def _linked(link: Path, target: Path) -> str:
    """Let a script that writes the path out find the data there too; returns why that cannot be."""
    if link == target:
        return ""
    if link.is_symlink():
        link.unlink()  # of an earlier try
    if link.exists():
        return "the code of the run has something there"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target)
    return ""
