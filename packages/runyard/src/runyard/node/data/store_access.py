import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from runyard.client import ServiceClient, quoted, retry_while_unavailable
from runyard.core.data_json import data_from_json
from runyard.core.errors import DataFailed
from runyard.core.ports.data import DataStore
from runyard.core.records.data import DataForAttempt, SourceFile, StoreAccess
from runyard.core.records.launch_plan import DataItem
from runyard.core.records.runs import AttemptId
from runyard.data.datastores.factory import open_store
from runyard.data.transfers import BlockCache, cache_limit, download
from runyard.node.data.file_trees import dataset_path
from runyard.node.data.staging_context import StagingContext, item_errors
from runyard.node.processes.event_loop import now

ANSWER_SECONDS = 3600.0
"""The service lists whole datastores before it answers, which may take long."""


def request_data(
    client: ServiceClient, home: Path, attempt_id: AttemptId, *, stores_only: bool = False, shares_files: bool = True
) -> DataForAttempt:
    """Ask the service where the attempt's data is, with credentials, which stay in memory. Raises RunyardError.

    A node that shares no files with the service gets local folders through the service.
    """
    parameters = ["stores=1"] * stores_only + ["apart=1"] * (not shares_files)
    address = f"/attempts/{quoted(attempt_id)}/data{'?' if parameters else ''}{'&'.join(parameters)}"
    data = data_from_json(retry_while_unavailable(partial(client.get, address)))
    stores = {name: _reached_from_here(access, home, client.token) for name, access in data.stores.items()}
    return replace(data, stores=stores)


def _reached_from_here(access: StoreAccess, home: Path, token: str) -> StoreAccess:
    """Fill in the service's address and this node's token for a store that the service serves."""
    if access.kind != "service":
        return access
    return replace(access, options={**access.options, "home": str(home)}, secrets={"token": token})


CACHE_FOLDER = "data-cache"


@dataclass(frozen=True)
class ItemDownload:
    """Files to download for an item, to their paths below `root`."""

    item: DataItem
    root: Path
    files: Sequence[SourceFile] | None = None
    """None: all files at the item's path of its datastore, with their whole paths."""
    may_be_empty: bool = False


def download_all(fetches: Sequence[ItemDownload], data: DataForAttempt, context: StagingContext) -> None:
    """Download all files. Raises RunyardError with the item that failed."""
    stores = LazyStores(data)
    found = [(fetch, _files(fetch, stores)) for fetch in fetches]
    sizes = [file.size for _, files in found for file in files]
    known = [size for size in sizes if size is not None]
    total = sum(known) if len(known) == len(sizes) else None
    progress = TransferProgress("Fetching data", total, context.message, context.log_line)
    folder = context.folder.home / CACHE_FOLDER
    with closing(BlockCache(folder, cache_limit(folder), context.log_line)) as cache:
        for fetch, files in found:
            with item_errors(fetch.item):
                fetch.root.mkdir(parents=True, exist_ok=True)
                needed = {name: stores[name] for name in {file.store for file in files}}
                download([(file, fetch.root / dataset_path(file.path)) for file in files], needed, cache, progress)
                context.log_line(f"{fetch.item.name}: {len(files)} files in {fetch.root}.")


def list_item_files(item: DataItem, stores: "LazyStores") -> Iterator[SourceFile]:
    """The file at the item's path of its datastore, or all files below that folder."""
    path, store = item.path, stores[item.datastore]
    for found in [store.stat(path)] if stores.is_web(item.datastore) else store.list(path):
        if not path or found.path == path or found.path.startswith(f"{path}/"):
            yield SourceFile(found.path, item.datastore, found.path, found.size, found.etag, found.is_ranged)


class LazyStores(Mapping[str, DataStore]):
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


def _files(fetch: ItemDownload, stores: LazyStores) -> Sequence[SourceFile]:
    if fetch.files is not None:
        return fetch.files
    item = fetch.item
    with item_errors(item):
        files = list(list_item_files(item, stores))
        if not files and not fetch.may_be_empty:
            raise DataFailed(
                f"there is nothing at {item.path!r} in datastore {item.datastore!r}.",
                hint="Upload the files first, or correct the path.",
            )
    return files


_MESSAGE_SECONDS, _LINE_SECONDS = 1.0, 10.0
_GIGABYTE, _MEGABYTE = 10**9, 10**6


class TransferProgress:
    """Counts transferred bytes. Sets the run's message every second, and writes a log line every ten seconds.

    Thread-safe. A shorter transfer reports nothing.
    """

    def __init__(
        self, doing: str, total: int | None, message: Callable[[str], None], log_line: Callable[[str], None]
    ) -> None:
        """`doing` begins the sentence ("Fetching data"); `total` is None if it is not known."""
        self._doing, self._total, self._message, self._log_line = doing, total, message, log_line
        self._done, self._lock = 0, threading.Lock()
        self._message_at, self._line_at = now() + _MESSAGE_SECONDS, now() + _LINE_SECONDS

    def __call__(self, more: int) -> None:
        with self._lock:
            self._done += more
            time = now()
            if time >= self._message_at:
                self._message_at = time + _MESSAGE_SECONDS
                self._message(f"{self._doing}: {self._amount()}.")
            if time >= self._line_at:
                self._line_at = time + _LINE_SECONDS
                self._log_line(f"{self._doing}: {self._amount()}.")

    def _amount(self) -> str:
        if self._total is None:
            return f"{_format_bytes(self._done, self._done)} so far"
        done = min(self._done, self._total)
        return f"{_format_bytes(done, self._total).partition(' ')[0]} of {_format_bytes(self._total, self._total)}"


def _format_bytes(count: int, beside: int) -> str:
    """Format bytes in the unit that fits `beside`."""
    if beside >= _GIGABYTE:
        return f"{count / _GIGABYTE:.1f} GB"
    return f"{count / _MEGABYTE:.1f} MB"
