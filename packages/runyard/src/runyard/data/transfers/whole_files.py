import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from io import FileIO

from runyard.core.disk import disk_errors_explained
from runyard.core.durable_files import exclusive_lock
from runyard.core.ports.data import DataStore
from runyard.core.records.data import SourceFile, StoredFile
from runyard.data.transfers.block_cache import BlockCache, cache_name
from runyard.data.transfers.source_checks import check_same

_OPEN_FILES = 128
_PIECE_BYTES = 1 << 26


class WholeFiles:
    """Reads files that have no byte ranges or no known size: fetched once into the cache and read there."""

    def __init__(self, cache: BlockCache) -> None:
        self._cache = cache
        self._guard = threading.Lock()
        self._open: OrderedDict[bytes, FileIO] = OrderedDict()
        self.fetched_bytes = 0

    def read(self, file: SourceFile, store: DataStore, start: int, length: int) -> Sequence[bytes]:
        """Read a part, up to the end of the file. The first read fetches the whole file."""
        fd = self.opened(file, store).fileno()
        end = min(start + length, os.fstat(fd).st_size)
        return [os.pread(fd, min(_PIECE_BYTES, end - offset), offset) for offset in range(start, end, _PIECE_BYTES)]

    def size(self, file: SourceFile, store: DataStore) -> int:
        return os.fstat(self.opened(file, store).fileno()).st_size

    def opened(self, file: SourceFile, store: DataStore) -> FileIO:
        """The fetched file, open. It stays readable after the cache evicts it."""
        name = cache_name(store.identity, file)
        found = self._open.get(name)
        if found is None:
            lock = self._cache.lock_for(name)
            with disk_errors_explained(lock), exclusive_lock(lock):
                found = self._open.get(name) or self._found(name, file) or self._fetched(name, file, store)
            with self._guard:
                self._open[name] = found
                if len(self._open) > _OPEN_FILES:
                    self._open.popitem(last=False)
        return found

    def close(self) -> None:
        with self._guard:
            self._open.clear()

    def _found(self, name: bytes, file: SourceFile) -> FileIO | None:
        return self._cache.open_whole(name, file.size) if file.etag else None

    def _fetched(self, name: bytes, file: SourceFile, store: DataStore) -> FileIO:
        target = self._cache.path_for_whole()
        try:
            wanted = StoredFile(file.key, file.size, file.etag, is_ranged=file.is_ranged)
            check_same(file, store.fetch(wanted, target, self._count))
            fetched = FileIO(os.open(target, os.O_RDONLY | os.O_CLOEXEC), "rb")
            # Without an etag the file may change unnoticed: not shared with other processes.
            is_kept = bool(file.etag) and self._cache.keep_whole(name, target)
        except BaseException:
            target.unlink(missing_ok=True)
            raise
        if not is_kept:
            target.unlink(missing_ok=True)
        return fetched

    def _count(self, size: int) -> None:
        with self._guard:
            self.fetched_bytes += size
