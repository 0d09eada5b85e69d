from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from runyard.core.records.data import StoredFile

Progress = Callable[[int], None]
"""Callback(bytes): this many more bytes were transferred."""


class DataStore(Protocol):
    """Files below one root: a folder, a bucket or container, web addresses. Safe to use from many threads.

    Raises InvalidArgument for a path that leaves the root, is absolute, holds a NUL or is too long; Unreachable for a
    store that did not answer for `NetworkRules.retry_seconds`; AccessDenied at once for refused credentials; NotFound
    for a missing bucket or container. No error holds a credential or the query of an address.
    """

    @property
    def identity(self) -> str:
        """Name of the location without credentials: equal for two stores of the same files and for no others. Cached
        data is shared by everyone who may read the location."""

    @property
    def local_root(self) -> Path | None:
        """Folder of its files on this machine, or None."""

    @property
    def is_writable(self) -> bool: ...

    def list(self, prefix: str = "") -> Iterator[StoredFile]:
        """Every file whose path begins with the text of the prefix ('a/b' finds 'a/bc'), sorted by path. A web address
        has one file."""

    def stat(self, path: str) -> StoredFile:
        """Facts of one file. Raises NotFound."""

    def read(self, path: str, start: int, length: int, *, etag: str = "") -> bytes | memoryview:
        """Exactly this range of the file; raises InvalidArgument past its end. With `etag`, raises SourceChanged if the
        file has changed; never mixes bytes of two versions."""

    def fetch(self, file: StoredFile, target: Path, progress: Progress) -> StoredFile:
        """Download the whole file in one stream, for small files and those that are not `is_ranged`.

        Writes a temporary file and renames it, so `target` is complete or absent. Returns the file as downloaded.
        Raises TooLarge above `max_file_bytes`, and SourceChanged.
        """

    def put(self, path: str, source: Path, *, overwrite: bool, progress: Progress) -> StoredFile:
        """Store a local file completely or not at all; large files in parallel parts. Raises AlreadyExists unless
        `overwrite`."""

    def delete(self, path: str) -> None:
        """Delete a file; does nothing if it is gone."""


@runtime_checkable
class BatchReader(Protocol):
    """A store that reads many small files much faster together than one by one."""

    def read_many(self, files: Sequence[tuple[str, int, str]]) -> Iterator[tuple[int, memoryview]]:
        """Read whole files, given as (path, size, etag). Yields (index, content) as each arrives. Skips a file whose
        first try fails: `read` then gets it or raises the reason."""


@runtime_checkable
class BatchWriter(Protocol):
    """A store that writes many files much faster together than one by one."""

    def put_many(
        self, items: Sequence[tuple[str, Path]], *, overwrite: bool, progress: Progress
    ) -> Sequence[StoredFile]:
        """`put` each (path, source), with one sync. After an error some files may be stored, each complete."""
