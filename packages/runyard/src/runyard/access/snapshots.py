import hashlib
import json
import uuid
from collections.abc import Sequence
from dataclasses import replace

from runyard.access.blobs import CallerBlobs
from runyard.core.errors import InvalidArgument, TooLarge
from runyard.core.names import check_entries, check_relative_path, check_sha256
from runyard.core.ports.clock import Clock
from runyard.core.ports.stores import FileStore
from runyard.core.principal import Principal
from runyard.core.records.files import FileEntry, Snapshot
from runyard.storage.blobs.content import StoredFolder

NAMED_AS_LARGEST = 5
LARGEST_BYTES = 2**63 - 1


class Snapshots:
    """Stores the source folders of runs, each under the hash of its content."""

    def __init__(self, files: FileStore, blobs: CallerBlobs, clock: Clock, *, warn_bytes: int, max_bytes: int) -> None:
        self._files, self._blobs, self._clock = files, blobs, clock
        self._warn_bytes, self._max_bytes = warn_bytes, max_bytes

    def keep(self, who: Principal, given: Sequence[FileEntry], *, allow_large: bool) -> tuple[Snapshot, list[str]]:
        """Store a snapshot for a caller who may submit; return it and warnings.

        Raises BlobsMissing, and TooLarge unless `allow_large`.
        """
        entries = checked_entries(given)
        warnings = self._size_warnings(entries, allow_large)
        self._blobs.require(who, entries)
        snapshot = Snapshot(snapshot_id(entries), tuple(entries), self._clock.now())
        self._files.put_snapshot(snapshot)
        return snapshot, warnings

    def get(self, who: Principal, snapshot_id: str) -> Snapshot:
        """Raises NotFound, also for a snapshot that the caller may not see."""
        self._blobs.require_snapshot(who, snapshot_id)
        return self._files.get_snapshot(snapshot_id)

    def folder(self, who: Principal, snapshot_id: str) -> StoredFolder:
        """Files of the snapshot with their content. Raises NotFound as `get` does, and BlobDamaged."""
        found = StoredFolder(self._blobs.stored, self.get(who, snapshot_id).entries)
        found.require_sound()
        return found

    def _size_warnings(self, entries: Sequence[FileEntry], allow_large: bool) -> list[str]:
        total = sum(entry.size for entry in entries)
        if total <= self._warn_bytes:
            return []
        largest = sorted(entries, key=lambda entry: -entry.size)[:NAMED_AS_LARGEST]
        named = ", ".join(f"{entry.path} ({_megabytes(entry.size)})" for entry in largest)
        if total > self._max_bytes and not allow_large:
            raise TooLarge(
                f"The source_directory holds {_megabytes(total)}, above the limit of {_megabytes(self._max_bytes)}. "
                f"Largest: {named}.",
                hint="Leave data out with an .amlignore file, or put it on a datastore.",
            )
        return [f"The snapshot is large: {_megabytes(total)}. Largest: {named}. An .amlignore file leaves files out."]


def checked_entries(given: Sequence[FileEntry]) -> list[FileEntry]:
    """Entries sorted by path, with normalized paths below the root, and sizes and modes in range.

    Raises InvalidArgument.
    """
    for entry in given:
        if entry.size > LARGEST_BYTES:
            raise InvalidArgument(f"The size of {entry.path[:80]!r} is more than a file can have.")
    entries = sorted(
        (
            replace(
                entry,
                path=check_relative_path(entry.path, "path"),
                sha256=check_sha256(entry.sha256),
                size=max(0, entry.size),
                mode=entry.mode & 0o777,
            )
            for entry in given
        ),
        key=lambda entry: entry.path,
    )
    check_entries(entries)
    return entries


def snapshot_id(entries: Sequence[FileEntry]) -> str:
    """Id that depends only on the paths, contents and modes of the files."""
    content = [[entry.path, entry.sha256, entry.size, entry.mode] for entry in entries]
    digest = hashlib.sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()
    return str(uuid.UUID(hex=digest[:32]))


def _megabytes(size: int) -> str:
    return f"{size / 1024 / 1024:,.0f} MB"
