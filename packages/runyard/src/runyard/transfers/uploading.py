from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from runyard.model.data import StoredFile
from runyard.ports.data import DataStore, Progress, PutsMany


def upload(
    items: Sequence[tuple[Path, str]], store: DataStore, *, overwrite: bool, progress: Progress, threads: int = 16
) -> Sequence[StoredFile]:
    """Store each local file under its path, many at a time; returns them as stored, in the order given.

    AlreadyExists, naming the path, for one that is there unless `overwrite`. After an error some are stored, each of
    them whole, and no more are begun.
    """
    if isinstance(store, PutsMany):
        return store.put_many([(path, source) for source, path in items], overwrite=overwrite, progress=progress)
    with ThreadPoolExecutor(min(threads, max(len(items), 1)), "data-upload") as pool:
        puts = [pool.submit(store.put, path, source, overwrite=overwrite, progress=progress) for source, path in items]
        try:
            return [put.result() for put in puts]
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
