from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO, Protocol

from runyard.core.records.files import AllowedFolders


class BlobStore(Protocol):
    """Bytes stored under their sha256. Once a `put*` method returns, its blobs are on disk, fsynced."""

    def missing(self, names: Sequence[str]) -> list[str]:
        """The names that are not stored."""

    def put(self, sha256: str, chunks: Iterable[bytes]) -> int:
        """Store and verify. Raises InvalidArgument if the bytes have another hash. A stored blob is left alone."""

    def put_many(self, blobs: Iterable[tuple[str, bytes]]) -> None:
        """Store many small blobs as `put` does, with one sync."""

    def put_files(
        self, paths: Sequence[Path], *, are_final: bool = False, within: AllowedFolders | None = None
    ) -> list[tuple[str, int]]:
        """Copy (or reflink) files of this machine, with one sync for the batch.

        Returns (sha256, size) of each copy, in order. The copy is hashed, so a file that changes meanwhile is stored as
        it was hashed. Raises InvalidArgument for what is not a regular file (links included) or not `within`.
        `are_final` promises that nobody changes the files any more: they may then be hard linked, which is fast and
        needs no space on a full disk.
        """

    def open(self, sha256: str) -> BinaryIO:
        """Open the blob for reading. Raises NotFound, and BlobDamaged as `verified_path` does."""

    def local_path(self, sha256: str) -> Path | None:
        """Path of the blob on this machine, or None. For reading only, and not verified."""

    def verified_path(self, sha256: str, *, size: int | None = None, always: bool = False) -> Path:
        """Path of the blob after a check of its content. Raises NotFound, or BlobDamaged for other content.

        The size is always checked. The hash is checked when this process first reads the blob, when the file has
        changed since, at random now and then, and with `always` each time.
        """

    def delete_unused(self, used: set[str], older_than_seconds: float) -> tuple[int, int]:
        """Remove blobs that are not in `used` and were not touched for that long; returns (count, bytes)."""

    def remove_abandoned(self) -> tuple[int, int]:
        """Remove partial files of killed writers, however new; returns (count, bytes). Files of running writers
        stay."""


class LogStore(Protocol):
    """Logs of runs, readable while they grow."""

    def append(self, run_id: str, path: str, offset: int, data: bytes) -> int:
        """Write at `offset` and return the new end. Bytes below the current end are skipped, so sending twice is
        harmless. Raises Conflict for an offset past the end."""

    def size(self, run_id: str, path: str) -> int:
        """Size of a log; 0 if it was never written."""

    def sizes(self, run_id: str) -> dict[str, int]:
        """Size of every log of the run by path, sorted."""

    def read(self, run_id: str, path: str, offset: int = 0, limit: int | None = None) -> bytes: ...

    def seal(self, run_id: str) -> None:
        """Sync every log of the run to disk."""

    def delete(self, run_id: str) -> None: ...
