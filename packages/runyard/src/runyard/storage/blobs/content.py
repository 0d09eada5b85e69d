from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from runyard.core.errors import BlobDamaged, NotFound
from runyard.core.ports.blobs import BlobStore
from runyard.core.records.files import FileEntry

PIECE_BYTES = 1024 * 1024


@dataclass(frozen=True)
class FileContent:
    """A file to send: by its path if it is on this machine and does not change, else in pieces."""

    size: int
    path: Path | None = None
    pieces: Callable[[], Iterator[bytes]] | None = None
    part: Callable[[int, int], Iterator[bytes | memoryview]] | None = None
    """Function(start, length) that yields a range of the file; None if ranges are not supported."""
    etag: str = ""


class StoredFolder:
    """Files whose contents are blobs, such as a snapshot or a package. The caller has checked access to all of them."""

    def __init__(self, blobs: BlobStore, entries: Sequence[FileEntry]) -> None:
        self._blobs, self.entries = blobs, entries

    def read(self, entry: FileEntry) -> Iterator[bytes]:
        with self._blobs.open(entry.sha256) as source:
            while piece := source.read(PIECE_BYTES):
                yield piece

    def require_sound(self) -> None:
        """Raises BlobDamaged naming the files with missing or altered content."""
        bad = []
        for entry in self.entries:
            try:
                self._blobs.verified_path(entry.sha256, size=entry.size)
            except (NotFound, BlobDamaged):
                bad.append(entry.path)
        if bad:
            raise BlobDamaged(
                f"{len(bad)} of {len(self.entries)} files are missing or damaged: {', '.join(map(repr, bad[:5]))}.",
                hint="`runyard check --repair --from FOLDER` brings them back from a backup.",
            )
