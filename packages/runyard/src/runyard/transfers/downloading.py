import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from runyard.blobs.disk import write_all
from runyard.datastores.copying import copy
from runyard.errors import SourceChanged, StorageFull
from runyard.model.data import SourceFile, StoredFile
from runyard.ports.data import DataStore, Progress
from runyard.transfers.block_cache import BlockCache
from runyard.transfers.checksums import Checksums
from runyard.transfers.fetches import AT_ONCE_BYTES
from runyard.transfers.large_download import LargeDownload
from runyard.transfers.reading import Reader
from runyard.transfers.sources import check_same, store_of
from runyard.transfers.targets import writing, written_beside
from runyard.transfers.whole_files import WholeFiles
from runyard.transfers.workers import Task, run_all

_MOST_CACHED_BYTES = 64 << 20


def download(
    items: Sequence[tuple[SourceFile, Path]],
    stores: Mapping[str, DataStore],
    cache: BlockCache,
    progress: Progress,
    *,
    threads: int = 16,
) -> None:
    """Download each file to its path, many files and many parts of large files at a time. Creates folders.

    Each target is either the whole file (size, version and, if known, checksum as listed) or unchanged. Small files go
    through the cache; a large file that an earlier call left unfinished is resumed. `progress` also counts bytes from
    the cache. Raises the errors of the stores. After SourceChanged and StorageFull no partial file is left.
    """
    downloads = _Downloads(stores, cache, progress, threads)
    try:
        run_all(downloads.tasks(items), threads)
    except (StorageFull, SourceChanged):
        downloads.abandon()
        raise
    finally:
        downloads.close()


class _Downloads:
    def __init__(self, stores: Mapping[str, DataStore], cache: BlockCache, progress: Progress, threads: int) -> None:
        self._stores, self._progress = stores, progress
        self._checksums = Checksums()
        self._reader = Reader(cache, stores, threads=threads, checksums=self._checksums)
        self._whole = WholeFiles(cache)
        self._large: list[LargeDownload] = []
        self._most_cached_bytes = min(_MOST_CACHED_BYTES, cache.limit_bytes // 8)

    def tasks(self, items: Sequence[tuple[SourceFile, Path]]) -> Iterator[Task]:
        for file, target in items:
            store = store_of(self._stores, file)
            if store.local_root is not None or not file.etag:
                yield partial(self._fetch, file, store, target)
            elif file.size is None or (not file.is_ranged and file.size <= self._most_cached_bytes):
                yield partial(self._copy_whole, file, store, target)
            elif not file.is_ranged:
                yield partial(self._fetch, file, store, target)
            elif file.size <= self._most_cached_bytes:
                yield partial(self._copy_cached, file, file.size, store, target)
            else:
                with writing(target):
                    target.parent.mkdir(parents=True, exist_ok=True)
                    large = LargeDownload(file, file.size, store, target, self._progress, self._checksums)
                self._large.append(large)
                yield from large.tasks()

    def abandon(self) -> None:
        for large in self._large:
            large.abandon()

    def close(self) -> None:
        for large in self._large:
            large.close()
        self._reader.close()
        self._whole.close()

    def _fetch(self, file: SourceFile, store: DataStore, target: Path) -> None:
        with writing(target):
            target.parent.mkdir(parents=True, exist_ok=True)
        wanted = StoredFile(file.key, file.size, file.etag, is_ranged=file.is_ranged)
        check_same(file, store.fetch(wanted, target, self._progress))

    def _copy_whole(self, file: SourceFile, store: DataStore, target: Path) -> None:
        source = self._whole.opened(file, store)
        with written_beside(target) as fd:
            copy(source.fileno(), fd, self._progress)

    def _copy_cached(self, file: SourceFile, size: int, store: DataStore, target: Path) -> None:
        # A file of at most AT_ONCE_BYTES is verified when it is fetched.
        expected = self._checksums.expected(store.identity, file.etag) if size > AT_ONCE_BYTES else ""
        with written_beside(target) as fd:
            first = self._copied(file, size, fd, self._progress)
            if expected and first != expected:
                self._reader.forget(file)
                os.ftruncate(fd, os.lseek(fd, 0, os.SEEK_SET))
                self._checksums.judge(store.identity, file, first, self._copied(file, size, fd, _no_progress))

    def _copied(self, file: SourceFile, size: int, fd: int, progress: Progress) -> str:
        """Write the file to `fd`. Returns the MD5 of what was written."""
        digest = hashlib.md5(usedforsecurity=False)
        for start in range(0, size, AT_ONCE_BYTES):
            for piece in self._reader.read(file, start, AT_ONCE_BYTES):
                write_all(fd, piece)
                if size > AT_ONCE_BYTES:
                    digest.update(piece)
                progress(len(piece))
        return digest.hexdigest()


def _no_progress(size: int) -> None:
    pass
