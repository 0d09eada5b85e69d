from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO, Protocol

from runyard.model.files import Within


class BlobStore(Protocol):
    """Bytes under the name of their sha256. What `put*` returned for is on disk, fsynced."""

    def missing(self, names: Sequence[str]) -> list[str]:
        """Those of the names that are not here."""

    def put(self, sha256: str, chunks: Iterable[bytes]) -> int:
        """Store and verify; InvalidArgument if the bytes are others; a blob already here is left alone."""

    def put_many(self, blobs: Iterable[tuple[str, bytes]]) -> None:
        """As `put` for many small ones, synced together."""

    def put_files(
        self, paths: Sequence[Path], *, are_final: bool = False, within: Within | None = None
    ) -> list[tuple[str, int]]:
        """Copy (or reflink) files of this machine in, one fsync for the batch.
        Returns (sha256, size) of what was copied, in order: the copy is hashed, so a file that changes meanwhile
        is whole as hashed. InvalidArgument for what is not a regular file, links included, or not `within`.
        `are_final` promises that nobody can change the files any more: they may then be hard linked, which is
        quick and takes no room on a full disk."""

    def open(self, sha256: str) -> BinaryIO:
        """Raises NotFound, and BlobDamaged as `verified_path` does."""

    def local_path(self, sha256: str) -> Path | None:
        """Where the blob lies on this machine, if it does. Read only, and not verified."""

    def verified_path(self, sha256: str, *, size: int | None = None, always: bool = False) -> Path:
        """Where the blob lies, once it is found to be what was stored: its size always, its hash when this process
        first reads it, when the file has changed since, now and then, and with `always` each time.
        Raises NotFound, or BlobDamaged for other content."""

    def delete_unused(self, used: set[str], older_than_seconds: float) -> tuple[int, int]:
        """Remove blobs not in `used` and untouched for that long; returns (count, bytes)."""

    def remove_abandoned(self) -> tuple[int, int]:
        """Remove what writers that were killed left half written, however new; (count, bytes). What a living writer is
        at stays."""


class LogStore(Protocol):
    """Logs of runs that grow while they are read."""

    def append(self, run_id: str, path: str, offset: int, data: bytes) -> int:
        """Write at `offset`; bytes below the present end are skipped, so sending twice is harmless.
        An offset past the end is Conflict. Returns the new end."""

    def size(self, run_id: str, path: str) -> int:
        """0 when never written."""

    def sizes(self, run_id: str) -> dict[str, int]:
        """Every log of the run by path, sorted."""

    def read(self, run_id: str, path: str, offset: int = 0, limit: int | None = None) -> bytes: ...

    def seal(self, run_id: str) -> None:
        """fsync every log of the run."""

    def delete(self, run_id: str) -> None: ...
