from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path

from runyard.core.errors import RunyardError
from runyard.core.ports.data import Progress
from runyard.core.records.data import StoredFile
from tests.data.transfers.memory_store import MemoryStore


class FlakyStore(MemoryStore):
    """A remote store in memory that fails as told: `trouble` is raised by everything but stat and list."""

    def __init__(self) -> None:
        super().__init__()
        self.trouble: RunyardError | None = None
        self.lists: list[str] = []
        self.puts: list[str] = []
        self.before_read = lambda _path, _start: self._check()

    @property
    def files(self) -> MutableMapping[str, bytes]:
        """What others see, and change."""
        return _Files(self)

    @files.setter
    def files(self, files: Mapping[str, bytes]) -> None:
        self.files.clear()
        self.files.update(files)

    def list(self, prefix: str = "") -> Iterator[StoredFile]:
        self.lists.append(prefix)
        return super().list(prefix)

    def put(self, path: str, source: Path, *, overwrite: bool, progress: Progress) -> StoredFile:
        self._check()
        self.puts.append(path)
        return super().put(path, source, overwrite=overwrite, progress=progress)

    def delete(self, path: str) -> None:
        self._check()
        super().delete(path)

    def _check(self) -> None:
        if self.trouble is not None:
            raise self.trouble


class _Files(MutableMapping[str, bytes]):
    """The files of a store as a mapping, past its troubles and counts."""

    def __init__(self, store: FlakyStore) -> None:
        self._store = store

    def __getitem__(self, path: str) -> bytes:
        return self._store.content(path)

    def __setitem__(self, path: str, data: bytes) -> None:
        self._store.set(path, data)

    def __delitem__(self, path: str) -> None:
        MemoryStore.delete(self._store, path)

    def __iter__(self) -> Iterator[str]:
        return (file.path for file in MemoryStore.list(self._store))

    def __len__(self) -> int:
        return len(list(iter(self)))
