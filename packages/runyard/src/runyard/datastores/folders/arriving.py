import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from runyard.blobs.copying import start_writing_out
from runyard.blobs.sources import opened_source
from runyard.datastores.copying import copy
from runyard.datastores.folders.beneath import Root
from runyard.datastores.unfinished import Unfinished, unfinished_in
from runyard.ports.data import Progress

_AT_ONCE = 128  # each needs a descriptor, and its folder may need another
_FEW = 4
_SYNCS_AT_ONCE = 8  # a disk syncs several files in the time of one


def store_files(
    root: Root, items: Sequence[tuple[str, Path]], *, overwrite: bool, progress: Progress
) -> list[os.stat_result]:
    """Store each (path, source) durably and return its stat. After an error some files may be stored, each whole.

    Files are written without a visible name, synced together, and only then get their names.
    """
    stored: list[os.stat_result] = []
    for start in range(0, len(items), _AT_ONCE):
        with ExitStack() as held:
            arrivals = _Arrivals(root, held)
            for path, source in items[start : start + _AT_ONCE]:
                arrivals.write(path, source, progress)
            stored += arrivals.settle(overwrite=overwrite)
    return stored


class _Arrivals:
    def __init__(self, root: Root, held: ExitStack) -> None:
        self._root, self._held = root, held
        self._folders: dict[str, int] = {}
        self._written: list[tuple[str, Unfinished]] = []

    def write(self, path: str, source: Path, progress: Progress) -> None:
        parent = path.rpartition("/")[0]
        with (
            opened_source(source.resolve() if source.is_symlink() else source) as (original, _),
            self._root.explained(path),
        ):
            if parent not in self._folders:
                self._folders[parent] = self._held.enter_context(self._root.open_folder(parent, make=True))
            file = self._held.enter_context(unfinished_in(self._folders[parent]))
            copy(original, file.fd, progress)
        self._written.append((path, file))

    def settle(self, *, overwrite: bool) -> list[os.stat_result]:
        self._sync()
        for path, file in self._written:
            name = path.rpartition("/")[2]
            with self._root.explained(path):
                file.replace(name) if overwrite else file.create(name)
        for parent, folder in self._folders.items():
            with self._root.explained(parent):
                os.fsync(folder)
        return [os.fstat(file.fd) for _, file in self._written]

    def _sync(self) -> None:
        descriptors = [file.fd for _, file in self._written]
        with self._root.explained(self._written[-1][0]):
            if len(descriptors) < _FEW:
                for fd in descriptors:
                    os.fdatasync(fd)
                return
            for fd in descriptors:
                start_writing_out(fd)
            with ThreadPoolExecutor(_SYNCS_AT_ONCE, "store-sync") as pool:
                list(pool.map(os.fdatasync, descriptors))
