"""Resolution of a dataset definition to its current files."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

from runyard.core.definitions.dataset import DatasetDefinition, DatasetSource
from runyard.core.errors import InvalidArgument, NotFound, Unreachable
from runyard.core.path_patterns import is_glob, literal_prefix, matcher, whole_folder
from runyard.core.ports.data import DataStore
from runyard.core.records.data import WEB, DatasetFiles, NetworkRules, SourceFile, StoredFile
from runyard.data.datasets.layout import paths_in_dataset, stored_path
from runyard.data.datasets.listing_limit import LISTING_SECONDS, bounded_listing
from runyard.data.datasets.open_datastores import OpenDatastores
from runyard.data.datasets.steps import FoundFile, Step, steps_of

STAT_THREADS = 16


@dataclass(frozen=True)
class Resolved:
    """Files of a dataset, sorted by path."""

    files: Sequence[FoundFile]
    is_one_file: bool
    folder: tuple[str, str] | None

    def as_dataset_files(self, changes: Sequence[str] = ()) -> DatasetFiles:
        return DatasetFiles([file.source for file in self.files], self.is_one_file, self.folder, changes)


class Resolver:
    def __init__(self, stores: OpenDatastores) -> None:
        self._stores = stores

    def resolve(
        self, workspace: str, dataset: DatasetDefinition, rules: NetworkRules, most: int | None = None
    ) -> Resolved:
        """Resolve a checked definition. With `most`, only so many files of each source, unless it has steps.

        Raises NotFound naming a source without files, and the errors of the stores.
        """
        steps = file_steps(dataset)
        sources, most = dataset.sources, None if dataset.steps else most
        if all(source.url for source in sources):
            found = self._of_web(workspace, [source.url for source in sources], rules, most)
            is_one_file, folder = len({source.url for source in sources}) == 1, None
        else:
            is_only = len(sources) == 1
            parts = [self._of_datastore(workspace, source, rules, most, is_only=is_only) for source in sources]
            found = [file for part in parts for file in part]
            is_one_file = len(sources) == 1 and _names_one(sources[0], found)
            folder = _whole(sources, is_one_file)
        files = _ordered(found)
        kept: Sequence[FoundFile] = files
        for step in steps:
            kept = step(kept)
        return Resolved(kept, is_one_file and bool(kept), folder if len(kept) == len(files) else None)

    def _of_web(self, workspace: str, urls: Sequence[str], rules: NetworkRules, most: int | None) -> list[FoundFile]:
        store = self._stores.open(workspace, WEB, rules)
        unique = list(dict.fromkeys(urls))
        asked = unique[:most]
        with ThreadPoolExecutor(min(STAT_THREADS, len(asked))) as threads:
            try:
                seen = list(threads.map(store.stat, asked, timeout=LISTING_SECONDS))
            except TimeoutError:
                raise Unreachable(
                    f"Asking for {len(asked):,} addresses took longer than {LISTING_SECONDS:.0f} seconds.",
                    hint="Make several datasets of them.",
                ) from None
            finally:
                threads.shutdown(wait=False, cancel_futures=True)
        paths = paths_in_dataset(unique)
        return [_found(paths[url], WEB, url, file) for url, file in zip(asked, seen, strict=True)]

    def _of_datastore(
        self, workspace: str, source: DatasetSource, rules: NetworkRules, most: int | None, *, is_only: bool
    ) -> list[FoundFile]:
        name, pattern = source.datastore, source.path
        store = self._stores.open(workspace, name, rules)
        found = [
            _found(stored_path(name, pattern, file.path, is_only_source=is_only), name, file.path, file)
            for file in islice(_matching(store, name, pattern), most)
        ]
        if not found:
            raise NotFound(
                f"There is nothing at {pattern or '/'!r} in datastore {name!r}.",
                hint="Upload the files first, or correct the path.",
            )
        return found


def file_steps(dataset: DatasetDefinition) -> Sequence[Step]:
    """Compiled steps of a file dataset; empty for a table, whose steps the SDK applies. Raises InvalidArgument."""
    return steps_of(list(dataset.steps)) if dataset.is_of_files else ()


def _matching(store: DataStore, name: str, pattern: str) -> Iterator[StoredFile]:
    where = f"datastore {name!r}"
    if is_glob(pattern):
        is_meant = matcher(pattern)
        return (file for file in bounded_listing(store.list(literal_prefix(pattern)), where) if is_meant(file.path))
    if pattern:
        try:
            return iter([store.stat(pattern)])
        except NotFound:
            return bounded_listing(store.list(f"{pattern}/"), where)
    return bounded_listing(store.list(""), where)


def _found(path: str, store: str, key: str, file: StoredFile) -> FoundFile:
    return FoundFile(SourceFile(path, store, key, file.size, file.etag, file.is_ranged), file)


def _names_one(source: DatasetSource, found: Sequence[FoundFile]) -> bool:
    return len(found) == 1 and found[0].source.key == source.path


def _whole(sources: Sequence[DatasetSource], is_one_file: bool) -> tuple[str, str] | None:
    """(datastore, path) if the sources are one whole folder or one file, else None."""
    if len(sources) != 1:
        return None
    path = sources[0].path
    folder = path if is_one_file else whole_folder(path)
    return None if folder is None else (sources[0].datastore, folder)


def _ordered(found: Sequence[FoundFile]) -> list[FoundFile]:
    """Files without duplicates, sorted by path. Raises InvalidArgument if a path is both file and folder."""
    by_path = {file.source.path: file for file in found}
    ordered = [by_path[path] for path in sorted(by_path)]
    folders: set[str] = set()
    for path in by_path:
        above = path.rpartition("/")[0]
        while above and above not in folders:
            folders.add(above)
            above = above.rpartition("/")[0]
    if both := sorted(folders & by_path.keys()):
        raise InvalidArgument(
            f"{both[0]!r} is a file of the dataset and a folder of other files at once.",
            hint="Make two datasets of them.",
        )
    return ordered
