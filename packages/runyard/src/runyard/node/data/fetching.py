from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from runyard.datastores.opening import open_store
from runyard.errors import DataFailed
from runyard.model.data import DataForAttempt, SourceFile
from runyard.model.plan import DataItem
from runyard.node.data.laying import inside
from runyard.node.data.place import Place, naming
from runyard.node.data.progress import TransferProgress
from runyard.ports.data import DataStore
from runyard.transfers import BlockCache, cache_limit, download

CACHE = "data-cache"


@dataclass(frozen=True)
class Fetch:
    """Files to download for an item, to their paths below `root`."""

    item: DataItem
    root: Path
    files: Sequence[SourceFile] | None = None
    """None: all files at the item's path of its datastore, with their whole paths."""
    may_be_empty: bool = False


def fetch_all(fetches: Sequence[Fetch], data: DataForAttempt, context: Place) -> None:
    """Download all files. Raises RunyardError with the item that failed."""
    stores = OpenStores(data)
    found = [(fetch, _files(fetch, stores)) for fetch in fetches]
    sizes = [file.size for _, files in found for file in files]
    known = [size for size in sizes if size is not None]
    total = sum(known) if len(known) == len(sizes) else None
    progress = TransferProgress("Fetching data", total, context.message, context.say)
    folder = context.folder.home / CACHE
    with closing(BlockCache(folder, cache_limit(folder), context.say)) as cache:
        for fetch, files in found:
            with naming(fetch.item):
                fetch.root.mkdir(parents=True, exist_ok=True)
                needed = {name: stores[name] for name in {file.store for file in files}}
                download([(file, fetch.root / inside(file.path)) for file in files], needed, cache, progress)
                context.say(f"{fetch.item.name}: {len(files)} files in {fetch.root}.")


def files_at(item: DataItem, stores: "OpenStores") -> Iterator[SourceFile]:
    """The file at the item's path of its datastore, or all files below that folder."""
    path, store = item.path, stores[item.datastore]
    for found in [store.stat(path)] if stores.is_web(item.datastore) else store.list(path):
        if not path or found.path == path or found.path.startswith(f"{path}/"):
            yield SourceFile(found.path, item.datastore, found.path, found.size, found.etag, found.is_ranged)


class OpenStores(Mapping[str, DataStore]):
    """Datastores of an attempt by name, each opened on first use. Not thread-safe.

    Do not fork afterwards if the child uses stores too: some have threads.
    """

    def __init__(self, data: DataForAttempt) -> None:
        self._data = data
        self._opened: dict[str, DataStore] = {}

    def __getitem__(self, name: str) -> DataStore:
        if name not in self._opened:
            self._opened[name] = open_store(self._data.stores[name], self._data.network)
        return self._opened[name]

    def is_web(self, name: str) -> bool:
        """Tell whether it is a store of web addresses, which cannot list files."""
        return self._data.stores[name].kind == "web"

    def __iter__(self) -> Iterator[str]:
        return iter(self._data.stores)

    def __len__(self) -> int:
        return len(self._data.stores)


def _files(fetch: Fetch, stores: OpenStores) -> Sequence[SourceFile]:
    if fetch.files is not None:
        return fetch.files
    item = fetch.item
    with naming(item):
        files = list(files_at(item, stores))
        if not files and not fetch.may_be_empty:
            raise DataFailed(
                f"there is nothing at {item.path!r} in datastore {item.datastore!r}.",
                hint="Upload the files first, or correct the path.",
            )
    return files
