import os
import threading
from collections import OrderedDict
from contextlib import suppress
from io import FileIO

from runyard.blobs.disk import explained
from runyard.environments.durable import locked
from runyard.model.data import SourceFile, StoredFile
from runyard.ports.data import DataStore
from runyard.transfers.block_cache import BlockCache, file_name
from runyard.transfers.sources import check_same

_OPEN_FILES = 128


class WholeFiles:
    """Files that can only be had whole, or whose size nobody told: fetched once into the cache and read there."""

    def __init__(self, cache: BlockCache) -> None:
        self._cache = cache
        self._guard = threading.Lock()
        self._open: OrderedDict[str, FileIO] = OrderedDict()
        self.fetched_bytes = 0

    def read(self, file: SourceFile, store: DataStore, start: int, length: int) -> bytes:
        """That part, as far as the file goes. The first read waits for all of the file."""
        return os.pread(self.opened(file, store).fileno(), length, start)

    def opened(self, file: SourceFile, store: DataStore) -> FileIO:
        """The fetched file. What a reader holds of it stays, even when the cache lets go of it."""
        name = file_name(store.identity, file)
        found = self._open.get(name)
        if found is None:
            with explained(self._cache.lock_for(name)), locked(self._cache.lock_for(name)):
                found = self._open.get(name) or FileIO(self._descriptor(name, file, store), "rb")
            with self._guard:
                self._open[name] = found
                if len(self._open) > _OPEN_FILES:
                    self._open.popitem(last=False)
        return found

    def close(self) -> None:
        with self._guard:
            self._open.clear()

    def _descriptor(self, name: str, file: SourceFile, store: DataStore) -> int:
        files = self._cache.files_for(file)
        known = files.open(name, size=file.size)
        if known is not None:
            return known
        target = files.new_file(name)
        try:
            wanted = StoredFile(file.key, file.size, file.etag, is_ranged=file.is_ranged)
            got = store.fetch(wanted, target, self._count)
            check_same(file, got)
            descriptor = os.open(target, os.O_RDONLY | os.O_CLOEXEC)
            files.vouch_for(name, target)
        except BaseException:
            with suppress(FileNotFoundError):
                target.unlink()
            raise
        self._cache.account(target.stat().st_size)
        return descriptor

    def _count(self, size: int) -> None:
        with self._guard:
            self.fetched_bytes += size
