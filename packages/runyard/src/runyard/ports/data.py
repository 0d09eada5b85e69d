from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from runyard.model.data import StoredFile

Progress = Callable[[int], None]
"""Told how many more bytes have come or gone."""


class DataStore(Protocol):
    """Files below one root: a folder, a bucket or container, web addresses. Safe to use from many threads.

    A path that leaves the root, is absolute, holds a NUL or is longer than the store takes is InvalidArgument,
    naming it. A store that does not answer is asked again for `NetworkRules.retry_seconds`, then Unreachable;
    refused credentials are AccessDenied at once; a bucket or container that is not there is NotFound naming it. No
    error ever holds a credential or the query of an address.
    """

    @property
    def identity(self) -> str:
        """Names the place itself, without credentials: the same for two stores of the same files, whatever a workspace
        calls them, and for no others. What was read there may be used again by everyone who may read there."""

    @property
    def local_root(self) -> Path | None:
        """The folder where its files lie on this machine, if they do."""

    @property
    def is_writable(self) -> bool: ...

    def list(self, prefix: str = "") -> Iterator[StoredFile]:
        """Every file whose path begins with the prefix (of the text: 'a/b' finds 'a/bc'), sorted by path.
        Of web addresses: the one file there."""

    def stat(self, path: str) -> StoredFile:
        """Raises NotFound."""

    def read(self, path: str, start: int, length: int, *, etag: str = "") -> bytes | memoryview:
        """Exactly that part of the file, never less: past its end is InvalidArgument. With `etag`, SourceChanged when
        the file is another by now; never bytes of two versions."""

    def fetch(self, file: StoredFile, target: Path, progress: Progress) -> StoredFile:
        """The whole file in one stream, for files that are not `is_ranged` or are small. Written beside and renamed:
        `target` is whole or not there. Returns it as it was got. TooLarge above `max_file_bytes`; SourceChanged."""

    def put(self, path: str, source: Path, *, overwrite: bool, progress: Progress) -> StoredFile:
        """Store a local file whole or not at all. AlreadyExists unless `overwrite`. Large ones in parallel parts."""

    def delete(self, path: str) -> None:
        """Quiet when gone."""


@runtime_checkable
class ReadsMany(Protocol):
    """A store that gives many small files for much less than the price of each."""

    def read_many(self, files: Sequence[tuple[str, int, str]]) -> Iterator[tuple[int, memoryview]]:
        """Whole files, asked for as (path, size, etag), each with its place among those as soon as it has come. One
        that does not come at the first try is left out, whatever the reason: `read` gets it, or tells what is wrong."""


@runtime_checkable
class PutsMany(Protocol):
    """A store that takes many files for much less than the price of each."""

    def put_many(
        self, items: Sequence[tuple[str, Path]], *, overwrite: bool, progress: Progress
    ) -> Sequence[StoredFile]:
        """As `put` of each (path, source), synced together: after an error some may be stored, each of them whole."""
