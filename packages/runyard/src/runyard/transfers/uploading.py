from collections.abc import Sequence
from functools import partial
from pathlib import Path

from runyard.model.data import StoredFile
from runyard.ports.data import DataStore, Progress, PutsMany
from runyard.transfers.workers import run_all


def upload(
    items: Sequence[tuple[Path, str]], store: DataStore, *, overwrite: bool, progress: Progress, threads: int = 16
) -> Sequence[StoredFile]:
    """Store each local file under its path, many at a time; returns them as stored, in the order given.

    AlreadyExists, naming the path, for one that is there unless `overwrite`. After an error some are stored, each of
    them whole, and no more are begun.
    """
    if isinstance(store, PutsMany):
        return store.put_many([(path, source) for source, path in items], overwrite=overwrite, progress=progress)
    stored: dict[str, StoredFile] = {}

    def put(source: Path, path: str) -> None:
        stored[path] = store.put(path, source, overwrite=overwrite, progress=progress)

    run_all((partial(put, source, path) for source, path in items), min(threads, len(items)))
    return [stored[path] for _, path in items]
