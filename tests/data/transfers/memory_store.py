import hashlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from runyard.core.errors import AlreadyExists, InvalidArgument, NotFound, SourceChanged
from runyard.core.ports.data import Progress
from runyard.core.records.data import SourceFile, StoredFile


def _nothing(path: str, start: int) -> None:
    pass


class MemoryStore:
    """A remote store in memory that says what was asked of it. `before_read` may wait, or raise for the store;
    `damaged` changes what goes out."""

    local_root = None
    is_writable = True

    def __init__(
        self, files: dict[str, bytes] | None = None, *, has_etags: bool = True, identity: str = "memory:"
    ) -> None:
        self.identity = identity
        self.has_etags = has_etags
        self.reads: list[tuple[str, int, int]] = []
        self.fetches: list[str] = []
        self.before_read: Callable[[str, int], None] = _nothing
        self.damaged: Callable[[bytes], bytes] = bytes
        self._files: dict[str, tuple[bytes, str]] = {}
        self._guard = threading.Lock()
        for path, data in (files or {}).items():
            self.set(path, data)

    def set(self, path: str, data: bytes) -> None:
        self._files[path] = data, f'"{hashlib.md5(data).hexdigest()}"' if self.has_etags else ""

    def content(self, path: str) -> bytes:
        return self._files[path][0]

    def source(self, path: str, *, is_ranged: bool = True, tells_size: bool = True) -> SourceFile:
        """The file as a dataset lists it."""
        stored = self.stat(path)
        return SourceFile(path[:100], "far", path, stored.size if tells_size else None, stored.etag, is_ranged)

    def list(self, prefix: str = "") -> Iterator[StoredFile]:
        return iter([self.stat(path) for path in sorted(self._files) if path.startswith(prefix)])

    def stat(self, path: str) -> StoredFile:
        try:
            data, etag = self._files[path]
        except KeyError:
            raise NotFound(f"There is no {path!r}.") from None
        return StoredFile(path, len(data), etag)

    def read(self, path: str, start: int, length: int, *, etag: str = "") -> bytes | memoryview:
        with self._guard:
            self.reads.append((path, start, length))
        self.before_read(path, start)
        stored = self.stat(path)
        if etag and stored.etag != etag:
            raise SourceChanged(f"{path!r} changed.")
        data = self._files[path][0]
        if start + length > len(data):
            raise InvalidArgument(f"{path!r} has {len(data)} bytes.")
        return self.damaged(data[start : start + length])

    def fetch(self, file: StoredFile, target: Path, progress: Progress) -> StoredFile:
        with self._guard:
            self.fetches.append(file.path)
        self.before_read(file.path, 0)
        stored = self.stat(file.path)
        beside = target.with_name(f"{target.name}.beside")
        beside.write_bytes(self._files[file.path][0])
        beside.rename(target)
        progress(stored.size or 0)
        return stored

    def put(self, path: str, source: Path, *, overwrite: bool, progress: Progress) -> StoredFile:
        with self._guard:
            if path in self._files and not overwrite:
                raise AlreadyExists(f"{path!r} is there.")
            self.set(path, source.read_bytes())
        progress(source.stat().st_size)
        return self.stat(path)

    def delete(self, path: str) -> None:
        self._files.pop(path, None)
