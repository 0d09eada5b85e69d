import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from runyard.access.authorization import Access
from runyard.access.blobs import CallerBlobs
from runyard.access.local_files import named_file, plain_files, real_path, script_files, script_folder
from runyard.access.snapshots import checked_entries
from runyard.core.errors import AlreadyExists, BlobDamaged, NotFound
from runyard.core.names import check_relative_path, check_sha256
from runyard.core.policy import Action
from runyard.core.ports.blobs import BlobStore, LogStore
from runyard.core.ports.stores import FileStore
from runyard.core.principal import Principal, Role
from runyard.core.records.files import AllowedFolders, FileEntry
from runyard.core.records.runs import RunId
from runyard.storage.blobs.content import PIECE_BYTES, FileContent

TRIES_AGAINST_VANISHING_FILES = 5


@dataclass(frozen=True)
class ListedFile:
    path: str
    size: int
    sha256: str | None
    """None for a log, which may still grow."""


class RunFiles:
    """Files of runs: artifacts, which are blobs, and logs. An artifact hides a log of the same path."""

    def __init__(
        self, files: FileStore, logs: LogStore, blobs: CallerBlobs, access: Access, *, attempts: Sequence[Path]
    ) -> None:
        self._files, self._logs, self._access, self._attempts = files, logs, access, attempts
        self._callers, self._blobs = blobs, blobs.stored

    def list(self, who: Principal, run_id: RunId, prefix: str = "") -> Sequence[ListedFile]:
        """Artifacts and logs whose path begins with `prefix`, sorted by path."""
        self._access.run(who, Action.SEE_DELIVERED, run_id)
        logs = {path: ListedFile(path, size, None) for path, size in self._logs.sizes(run_id).items()}
        entries = self._files.list(run_id, prefix)
        found = {path: log for path, log in logs.items() if path.startswith(prefix)}
        found.update({entry.path: ListedFile(entry.path, entry.size, entry.sha256) for entry in entries})
        return [found[path] for path in sorted(found)]

    def open(self, who: Principal, run_id: RunId, path: str) -> FileContent:
        self._access.reach(who, Action.SEE_DELIVERED, run_id)
        path = check_relative_path(path, "path")
        entry = self._files.find(run_id, path)
        if entry is not None:
            return _content_of(self._blobs, run_id, entry)
        self._access.run(who, Action.SEE_DELIVERED, run_id)  # raises NotFound for an unknown run
        size = self._logs.sizes(run_id).get(path)
        if size is None:
            raise NotFound(f"Run {run_id} has no file {path!r}.", hint="get_file_names() lists them.")
        return FileContent(size, pieces=lambda: self._log_pieces(run_id, path, size))

    def put(self, who: Principal, run_id: RunId, given: Sequence[FileEntry], *, fail_if_exists: bool = False) -> None:
        """Add or replace artifacts. Raises BlobsMissing, and AlreadyExists with `fail_if_exists`."""
        self._access.run(who, Action.DELIVER_RUN, run_id)
        entries = checked_entries(given)
        if fail_if_exists:
            taken = [entry.path for entry in entries if self._files.find(run_id, entry.path)]
            if taken:
                raise AlreadyExists(
                    f"Run {run_id} has a file {taken[0]!r} already.", hint="Choose another name.", paths=taken
                )
        self._callers.require(who, entries)
        self._files.put(run_id, entries)

    def adopt(
        self, who: Principal, run_id: RunId, root: str, paths: Sequence[str], *, are_final: bool = False
    ) -> Sequence[FileEntry]:
        """Store files of this machine as artifacts; return those that existed.

        An attempt may only name files in folders that its script writes to. `are_final` is a node's promise that the
        processes of the run are gone, so the files cannot change any more.
        """
        self._access.run(who, Action.DELIVER_RUN, run_id)
        folder = real_path(root, "root")
        within = None
        if who.attempt_id is not None:
            within = AllowedFolders((script_folder(self._attempts, who.attempt_id, folder, "root"),))
        are_final = are_final and who.role is Role.NODE
        for tries_left in reversed(range(TRIES_AGAINST_VANISHING_FILES)):
            found = list(plain_files(folder, paths))
            try:
                sources = [path for _, path, _ in found]
                stored = self._callers.put_files(who, sources, are_final=are_final, within=within)
                break
            except (FileNotFoundError, NotFound):
                if not tries_left:
                    raise
        entries = [
            FileEntry(path, sha256, size, mode) for (path, _, mode), (sha256, size) in zip(found, stored, strict=True)
        ]
        self._files.put(run_id, entries)
        return entries

    def below(self, who: Principal, run_id: RunId, path: str) -> Sequence[FileEntry]:
        """The file of that path, or all files below that folder. Logs become blobs with their present content."""
        entries = []
        for listed in self.list(who, run_id, path):
            if listed.path == path or listed.path.startswith(path + "/"):
                entry = self._files.find(run_id, listed.path) if listed.sha256 else None
                entries.append(entry or self._log_as_blob(run_id, listed.path))
        return entries

    def _log_as_blob(self, run_id: RunId, path: str) -> FileEntry:
        size, digest = self._logs.size(run_id, path), hashlib.sha256()
        for piece in self._log_pieces(run_id, path, size):
            digest.update(piece)
        self._blobs.put(digest.hexdigest(), self._log_pieces(run_id, path, size))
        return FileEntry(path, digest.hexdigest(), size)

    def _log_pieces(self, run_id: RunId, path: str, size: int) -> Iterator[bytes]:
        for offset in range(0, size, PIECE_BYTES):
            yield self._logs.read(run_id, path, offset, min(PIECE_BYTES, size - offset))


class ClientBlobs:
    """Uploads and downloads of blobs by clients, before a snapshot, run or model names them."""

    def __init__(self, blobs: CallerBlobs, access: Access, *, attempts: Sequence[Path]) -> None:
        self._callers, self._blobs, self._access, self._attempts = blobs, blobs.stored, access, attempts

    def missing(self, who: Principal, names: Sequence[str]) -> list[str]:
        """Blobs that the caller has to upload before it can name them."""
        self._access.service(who, Action.WRITE_BLOB)
        return self._callers.missing(who, [check_sha256(name) for name in names])

    def put(self, who: Principal, sha256: str, pieces: Iterable[bytes]) -> int:
        self._access.service(who, Action.WRITE_BLOB)
        return self._callers.put(who, check_sha256(sha256), pieces)

    def put_many(self, who: Principal, blobs: Iterable[tuple[str, bytes]]) -> None:
        self._access.service(who, Action.WRITE_BLOB)
        self._callers.put_many(who, ((check_sha256(sha256), data) for sha256, data in blobs))

    def open(self, who: Principal, sha256: str) -> FileContent:
        self._callers.require_readable(who, sha256)
        return blob_content(self._blobs, check_sha256(sha256))

    def adopt(self, who: Principal, paths: Sequence[str]) -> list[tuple[str, int]]:
        """Store files of this machine as blobs. A script may only name files in folders that it writes to."""
        self._access.service(who, Action.ADOPT_BLOB)
        if who.attempt_id is None:
            found = [Path(os.path.realpath(named_file(path, "paths"))) for path in paths]
            return self._callers.put_files(who, found)
        found, within = script_files(self._attempts, who.attempt_id, paths, "paths")
        return self._callers.put_files(who, found, within=within)


def blob_content(blobs: BlobStore, sha256: str, *, size: int | None = None) -> FileContent:
    """Content of a blob. Raises NotFound, and BlobDamaged if its hash or size is wrong."""
    path = blobs.verified_path(sha256, size=size)
    return FileContent(path.stat().st_size, path=path)


def _content_of(blobs: BlobStore, run_id: RunId, entry: FileEntry) -> FileContent:
    try:
        return blob_content(blobs, entry.sha256, size=entry.size)
    except (NotFound, BlobDamaged) as error:
        state = "missing from" if isinstance(error, NotFound) else "damaged on"
        raise BlobDamaged(
            f"The file {entry.path!r} of run {run_id} is {state} the service's disk.",
            hint="`runyard check --repair --from FOLDER` brings it back from a backup.",
        ) from error
