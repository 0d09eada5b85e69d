from collections.abc import Iterator
from pathlib import Path

from runyard.errors import RunyardError
from runyard.model.data import StoredFile
from runyard.ports.data import Progress
from tests.transfers.memory_store import MemoryStore


class FlakyStore(MemoryStore):
    """A remote store in memory that fails as told: `trouble` is raised by everything but stat and list."""

    def __init__(self, files: dict[str, bytes] | None = None) -> None:
        super().__init__(files)
        self.trouble: RunyardError | None = None
        self.lists: list[str] = []
        self.puts: list[str] = []
        self.before_read = lambda _path, _start: self._check()

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
