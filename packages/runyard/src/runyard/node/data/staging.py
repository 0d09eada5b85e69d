"""Stages the data of a run before its script starts: bind-mounted or linked if it is on this machine, else served by a
mount process or downloaded."""

import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from runyard.core.disk import lies_in
from runyard.core.errors import DataFailed, NotFound
from runyard.core.records.data import DataForAttempt, DatasetFiles, SourceFile
from runyard.core.records.launch_plan import DataItem
from runyard.data.fuse import MountUnavailable, ReadOnlyMount, WritableMount, start_mounts
from runyard.node.data.file_trees import copy_files, link_files
from runyard.node.data.staged_data import PendingUpload, StagedData, stat_signatures_below
from runyard.node.data.staging_context import StagingContext, item_errors
from runyard.node.data.store_access import CACHE_FOLDER, ItemDownload, LazyStores, download_all, list_item_files
from runyard.node.processes.procfs import identify

_LOCAL = "folder"


def stage_all(items: Sequence[DataItem], data: DataForAttempt, context: StagingContext) -> StagedData:
    """Stage every item for the script. Safe to repeat for the same attempt.

    Raises RunyardError with the item that failed, and why.
    """
    staging = _Staging(data, context)
    for item in items:
        with item_errors(item):
            staging.begin(item)
    staging.serve()
    staging.fetch()
    for item in items:
        with item_errors(item):
            staging.place_on_compute(item)
    staging.staged.binds = context.mounts.binds
    return staging.staged


class _Staging:
    def __init__(self, data: DataForAttempt, context: StagingContext) -> None:
        self._data, self._context = data, context
        self._roots: dict[str, Path] = {}
        self._bound_stores: dict[str, Path] = {}
        self._served: dict[str, tuple[DataItem, ReadOnlyMount | WritableMount]] = {}
        self._fetches: list[ItemDownload] = []
        self.staged = StagedData()

    def begin(self, item: DataItem) -> None:
        """Stage an item if that is quick; else note it for `serve` or `fetch`."""
        if item.kind == "dataset":
            found = self._files_of(item)
            self.staged.notices += found.changes
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
        """Start the mount process for remote data. Where mounting is not possible, download it, with one warning."""
        if not self._served:
            return
        if why_not := self._context.mounts.why_not_served():
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
                self._context.folder.home / CACHE_FOLDER,
                life=self._context.life,
                log_line=self._context.log_line,
                logs=self._context.folder.node_log,
                report=self._context.folder.root / report,
            )
        except MountUnavailable as unavailable:
            self._fetch_instead(str(unavailable))
            return
        self.staged.mount_process, self.staged.mount_report = identify(pid), report
        self.staged.served = list(self._served)
        self.staged.served_writable = [mount.name for mount in mounts if isinstance(mount, WritableMount)]
        for item, mount in self._served.values():
            self.staged.mount_points.append(str(mount.mount_point))
            self._context.mounts.show(mount.mount_point)
            if isinstance(mount, WritableMount):
                with item_errors(item):
                    _make_folder(Path(self.staged.paths[item.name]))

    def fetch(self) -> None:
        if self._fetches:
            download_all(self._fetches, self._data, self._context)
        for fetch in self._fetches:
            upload = self.staged.uploads.get(fetch.item.name)
            if upload is not None:
                upload.seen = stat_signatures_below(Path(upload.path))

    def place_on_compute(self, item: DataItem) -> None:
        """Link or bind the item at path_on_compute, unless its files are there already."""
        wanted, root = item.path_on_compute, self._roots.get(item.name)
        if not wanted or root is None:
            return
        path = self.staged.paths[item.name]
        if not wanted.startswith("/"):
            why_not = _linked(self._context.folder.work / wanted, root)
        elif root.is_file():
            why_not = "it is one file"
        else:
            why_not = self._context.mounts.bind_at(root, Path(wanted))
            if not why_not:
                self.staged.paths[item.name] = os.path.normpath(os.path.join(wanted, os.path.relpath(path, root)))
        if why_not:
            self._context.log_line(
                f"path_on_compute {wanted!r} of {item.name} is not made ({why_not}): it is at {path}."
            )

    def _files_of(self, item: DataItem) -> DatasetFiles:
        found = self._data.datasets[item.name]
        if not found.files and found.folder is None:
            raise DataFailed("the dataset has no files.", hint="Check the paths it was made from.")
        return found

    def _is_local(self, files: Sequence[SourceFile]) -> bool:
        return all(self._data.stores[store].kind == _LOCAL for store in {file.store for file in files})

    def _local_root(self, store: str) -> Path:
        root = Path(self._data.stores[store].root)
        if not root.is_dir():  # not created here: its disk may not be mounted
            raise NotFound(f"{root}, the folder of datastore {store!r}, is not there.", hint="Is its disk mounted?")
        return root

    def _local_path(self, store: str, path: str) -> Path:
        """Path in a local datastore. Raises DataFailed for a link out of it: a container engine would follow a link
        that a script has left to any path of the machine."""
        root = self._local_root(store)
        if self._context.mounts.are_by_engine and not lies_in(root / path, root):
            raise DataFailed(f"{path!r} of datastore {store!r} is a link that leads out of it.", hint="Copy it there.")
        return root / path

    def _mount_dataset(self, item: DataItem, found: DatasetFiles) -> None:
        if not self._is_local(found.files):
            root = self._context.mounts.of(item.name)
            self._served[item.name] = (item, ReadOnlyMount(root, found.files, item.name))
        elif not self._context.mounts.are_private:
            root = self._context.folder.data / item.name
            copy_files(((file.path, self._local_root(file.store) / file.key) for file in found.files), root)
        elif found.folder is not None and not found.is_one_file:
            store, path = found.folder
            root = self._context.mounts.bind(self._local_path(store, path), item.name)
        else:
            links = self._context.mounts.links / item.name
            link_files(((file.path, self._bound_store(file.store) / file.key) for file in found.files), links)
            root = self._context.mounts.bind(links, item.name)
        self._set_path(item, root, root / found.files[0].path if found.is_one_file else root)

    def _bound_store(self, store: str) -> Path:
        """Read-only mount of a local datastore, as the target of links."""
        if store not in self._bound_stores:
            name = f".datastore-{len(self._bound_stores)}"
            self._bound_stores[store] = self._context.mounts.bind(self._local_root(store), name)
        return self._bound_stores[store]

    def _fetch(self, item: DataItem, files: Sequence[SourceFile]) -> None:
        root = self._context.of(item)
        self._fetches.append(ItemDownload(item, root, files))
        self._set_path(item, root, root)

    def _fetch_reference(self, item: DataItem) -> None:
        root = self._context.folder.work / item.datastore / (item.path_on_compute or "").strip("/")
        self._fetches.append(ItemDownload(item, root))
        self.staged.paths[item.name] = str(root / item.path)

    def _use_local_folder(self, item: DataItem) -> None:
        """Use the folder of a local datastore itself: what is written there is on the datastore at once."""
        there = self._local_path(item.datastore, item.path)
        if not there.exists():
            there.mkdir(parents=True, exist_ok=True)
        self._context.mounts.show(there)
        self._set_path(item, there, there)

    def _mount_remote(self, item: DataItem) -> None:
        root = self._context.mounts.of(item.name)
        path = root
        stores = LazyStores(self._data)
        if stores.is_web(item.datastore):
            files = list(list_item_files(item, stores))
            self._served[item.name] = (item, ReadOnlyMount(root, files, item.name))
            path = root / item.path
        elif item.kind == "output":
            self._served[item.name] = (item, WritableMount(root, item.datastore, item.path, item.name))
        else:
            self._served[item.name] = (item, WritableMount(root, item.datastore, "", item.name))
            path = root / item.path
        self._set_path(item, path, path)

    def _upload_later(self, item: DataItem, prefix: str, *, overwrite: bool) -> Path:
        path = self._context.of(item)
        # A path with a suffix is the one file that the script writes.
        (path.parent if item.kind == "reference" and path.suffix else path).mkdir(parents=True, exist_ok=True)
        self.staged.uploads[item.name] = PendingUpload(str(path), prefix, overwrite)
        self._set_path(item, path, path)
        return path

    def _fetch_instead(self, why: str) -> None:
        names = ", ".join(self._served)
        warning = f"{why.rstrip('.')}. So this data is downloaded instead of mounted: {names}."
        self._context.log_line(warning)
        self.staged.warnings.append(warning)
        for item, mount in self._served.values():
            if isinstance(mount, ReadOnlyMount):
                self._fetch_mounted_files(item, mount)
            elif item.kind == "output":
                self._upload_later(item, item.path, overwrite=True)
            else:
                self._fetch_and_upload_later(item)

    def _fetch_mounted_files(self, item: DataItem, mount: ReadOnlyMount) -> None:
        """Download the files to the same paths below the item's own folder."""
        below = os.path.relpath(self.staged.paths[item.name], mount.mount_point)
        self._fetch(item, mount.files)
        self.staged.paths[item.name] = os.path.normpath(self._context.of(item) / below)

    def _fetch_and_upload_later(self, item: DataItem) -> None:
        root = self._upload_later(item, "", overwrite=True)
        self._fetches.append(ItemDownload(item, root, may_be_empty=True))
        self.staged.paths[item.name] = str(root / item.path)
        self._roots[item.name] = root / item.path

    def _set_path(self, item: DataItem, root: Path, path: Path) -> None:
        self._roots[item.name] = root
        self.staged.paths[item.name] = str(path)


def _make_folder(path: Path) -> None:
    if not path.exists():
        path.mkdir(parents=True, exist_ok=True)


def _linked(link: Path, target: Path) -> str:
    """Link the data at a path that the script has written out. Returns why that failed, else ""."""
    if link == target:
        return ""
    if link.is_symlink():
        link.unlink()  # left by an earlier try
    if link.exists():
        return "the code of the run has something there"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target)
    return ""
