import hashlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from runyard.errors import AlreadyExists, InvalidArgument, NotFound, SourceChanged
from runyard.model.data import SourceFile, StoredFile
from runyard.ports.data import Progress


def _nothing(path: str, start: int) -> None:
    pass


class MemoryStore:
    """A remote store in memory, that says what was asked of it. `before_read` may wait or raise for the store."""

    identity = "memory:"
    local_root = None
    is_writable = True

    def __init__(self, files: dict[str, bytes] | None = None, *, has_etags: bool = True) -> None:
        self.files = dict(files or {})
        self.has_etags = has_etags
        self.reads: list[tuple[str, int, int]] = []
        self.fetches: list[str] = []
        self.before_read: Callable[[str, int], None] = _nothing
        self._guard = threading.Lock()

    def source(self, path: str, *, is_ranged: bool = True, tells_size: bool = True) -> SourceFile:
        """The file as a dataset lists it."""
        stored = self.stat(path)
        return SourceFile(path, "far", path, stored.size if tells_size else None, stored.etag, is_ranged)

    def list(self, prefix: str = "") -> Iterator[StoredFile]:
        return iter([self.stat(path) for path in sorted(self.files) if path.startswith(prefix)])

    def stat(self, path: str) -> StoredFile:
        data = self._data(path)
        etag = f'"{hashlib.md5(data).hexdigest()}"' if self.has_etags else ""
        return StoredFile(path, len(data), etag)

    def read(self, path: str, start: int, length: int, *, etag: str = "") -> bytes | memoryview:
        self.before_read(path, start)
        with self._guard:
            self.reads.append((path, start, length))
        data = self._data(path)
        if etag and self.stat(path).etag != etag:
            raise SourceChanged(f"{path!r} changed.")
        if start + length > len(data):
            raise InvalidArgument(f"{path!r} has {len(data)} bytes.")
        return memoryview(data)[start : start + length]

    def fetch(self, file: StoredFile, target: Path, progress: Progress) -> StoredFile:
        self.before_read(file.path, 0)
        with self._guard:
            self.fetches.append(file.path)
        data = self._data(file.path)
        beside = target.with_name(f"{target.name}.beside")
        beside.write_bytes(data)
        beside.rename(target)
        progress(len(data))
        return self.stat(file.path)

    def put(self, path: str, source: Path, *, overwrite: bool, progress: Progress) -> StoredFile:
        if path in self.files and not overwrite:
            raise AlreadyExists(f"{path!r} is there.")
        self.files[path] = source.read_bytes()
        progress(len(self.files[path]))
        return self.stat(path)

    def delete(self, path: str) -> None:
        self.files.pop(path, None)

    def _data(self, path: str) -> bytes:
        try:
            return self.files[path]
        except KeyError:
            raise NotFound(f"There is no {path!r}.") from None
