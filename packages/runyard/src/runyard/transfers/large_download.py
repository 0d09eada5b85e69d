from collections.abc import Iterator
from functools import partial
from pathlib import Path

from runyard.model.data import SourceFile
from runyard.ports.data import DataStore, Progress
from runyard.transfers.checksums import Checksums
from runyard.transfers.partial_file import PartialFile
from runyard.transfers.targets import writing
from runyard.transfers.workers import Task


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
        with writing(self._target):
            return target.write(part, data)

    def _finish(self) -> None:
        if self._expected and (first := self._partial.md5()) != self._expected:
            self._fetch_again(first)
        with writing(self._target):
            self._partial.finish()
        self._is_finished = True

    def _fetch_again(self, first: str) -> None:
        """Fetch all parts again: an old part or the network may have damaged the file."""
        self._partial.abandon()
        self._partial = self._begun()
        for part in self._partial.missing:
            self._written(self._partial, part)
        self._checksums.judge(self._store.identity, self._file, first, self._partial.md5())
