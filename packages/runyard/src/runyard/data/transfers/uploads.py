from collections.abc import Sequence
from functools import partial
from pathlib import Path

from runyard.core.ports.data import BatchWriter, DataStore, Progress
from runyard.core.records.data import StoredFile
from runyard.data.transfers.worker_threads import run_all


def upload(
    items: Sequence[tuple[Path, str]], store: DataStore, *, overwrite: bool, progress: Progress, threads: int = 16
) -> Sequence[StoredFile]:
    """Store each (local file, path), many at a time. Returns them as stored, in the given order.

    Raises AlreadyExists, naming the path, for a path that is taken, unless `overwrite`. After an error some files are
    stored, each whole, and no more are started.
    """
    if isinstance(store, BatchWriter):
        return store.put_many([(path, source) for source, path in items], overwrite=overwrite, progress=progress)
    stored: dict[str, StoredFile] = {}

    def put(source: Path, path: str) -> None:
        stored[path] = store.put(path, source, overwrite=overwrite, progress=progress)

    run_all((partial(put, source, path) for source, path in items), min(threads, len(items)))
    return [stored[path] for _, path in items]
