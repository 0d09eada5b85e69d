import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from runyard.core.disk import is_disk_full, write_all
from runyard.core.durable_files import replacement
from runyard.core.errors import DataFailed, SourceChanged, StorageFull
from runyard.core.ports.data import DataStore, Progress
from runyard.core.records.data import SourceFile, StoredFile
from runyard.data.transfers.block_cache import BlockCache
from runyard.data.transfers.fetches import AT_ONCE_BYTES
from runyard.data.transfers.partial_file import PartialFile
from runyard.data.transfers.reader import Reader
from runyard.data.transfers.source_checks import Checksums, check_same, store_of
from runyard.data.transfers.whole_files import WholeFiles
from runyard.data.transfers.worker_threads import Task, run_all
from runyard.storage.blobs.file_copy import copy_file

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
                with explain_disk_errors(target):
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
        with explain_disk_errors(target):
            target.parent.mkdir(parents=True, exist_ok=True)
        wanted = StoredFile(file.key, file.size, file.etag, is_ranged=file.is_ranged)
        check_same(file, store.fetch(wanted, target, self._progress))

    def _copy_whole(self, file: SourceFile, store: DataStore, target: Path) -> None:
        source = self._whole.opened(file, store)
        with explain_disk_errors(target), replacement(target, make_folder=True) as fd:
            copy_file(source.fileno(), fd, self._progress)

    def _copy_cached(self, file: SourceFile, size: int, store: DataStore, target: Path) -> None:
        # A file of at most AT_ONCE_BYTES is verified when it is fetched.
        expected = self._checksums.expected(store.identity, file.etag) if size > AT_ONCE_BYTES else ""
        with explain_disk_errors(target), replacement(target, make_folder=True) as fd:
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


class LargeDownload:
    """Download of one large file straight to its target: parts in parallel, resuming an earlier attempt."""

    def __init__(
        self, file: SourceFile, size: int, store: DataStore, target: Path, progress: Progress, checksums: Checksums
    ) -> None:
        self._file, self._size, self._store, self._target = file, size, store, target
        self._progress, self._checksums = progress, checksums
        self._partial = self._begun()
        self._is_finished = False

    def tasks(self) -> Iterator[Task]:
        self._progress(self._partial.done_bytes)
        missing = self._partial.missing
        for part in missing:
            yield partial(self._fetch_part, part)
        if not missing:
            yield self._finish

    def abandon(self) -> None:
        if not self._is_finished:
            self._partial.abandon()

    def close(self) -> None:
        if not self._is_finished:
            self._partial.close()

    def _begun(self) -> PartialFile:
        version = repr((self._store.identity, self._file.key, self._file.etag, self._size))
        return PartialFile(self._target, version, self._size)

    @property
    def _expected(self) -> str:
        return self._checksums.expected(self._store.identity, self._file.etag)

    def _fetch_part(self, part: int) -> None:
        is_whole = self._written(self._partial, part)
        self._progress(self._partial.extent(part)[1])
        if is_whole:
            self._finish()
        elif self._expected:
            self._partial.hash_ready()

    def _written(self, target: PartialFile, part: int) -> bool:
        start, length = target.extent(part)
        data = self._store.read(self._file.key, start, length, etag=self._file.etag)
        with explain_disk_errors(self._target):
            return target.write(part, data)

    def _finish(self) -> None:
        if self._expected and (first := self._partial.md5()) != self._expected:
            self._fetch_again(first)
        with explain_disk_errors(self._target):
            self._partial.finish()
        self._is_finished = True

    def _fetch_again(self, first: str) -> None:
        """Fetch all parts again: an old part or the network may have damaged the file."""
        self._partial.abandon()
        self._partial = self._begun()
        for part in self._partial.missing:
            self._written(self._partial, part)
        self._checksums.judge(self._store.identity, self._file, first, self._partial.md5())


_SHOWN_CHARACTERS = 300


@contextmanager
def explain_disk_errors(target: Path) -> Iterator[None]:
    """Turn an OSError of the block into StorageFull or DataFailed that name the target."""
    try:
        yield
    except OSError as error:
        shown = repr(str(target)[:_SHOWN_CHARACTERS])
        if is_disk_full(error):
            hint = "Free space (`runyard gc`, `runyard du`) and try again."
            raise StorageFull(f"There is no room on the disk for {shown}.", hint=hint) from error
        raise DataFailed(f"{shown} cannot be written: {error.strerror}.", hint="Choose another target.") from error
