import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from runyard.errors import AlreadyExists, BlobDamaged, NotFound
from runyard.model.files import FileEntry, Within
from runyard.model.names import check_relative_path, check_sha256
from runyard.model.runs import AttemptId, RunId
from runyard.ports.blobs import BlobStore, LogStore
from runyard.ports.stores import FileStore, RunStore
from runyard.services.content import PIECE_BYTES, Content
from runyard.services.folders import named_file, plain_files, real_path, script_files, script_folder
from runyard.services.snapshots import checked_entries, require_blobs

TRIES_AGAINST_VANISHING_FILES = 5


@dataclass(frozen=True)
class ListedFile:
    path: str
    size: int
    sha256: str | None
    """None for a log, which may still grow."""


class RunFiles:
    """The files of runs: artifacts, which are blobs, and logs. An artifact hides a log of the same path."""

    def __init__(
        self, runs: RunStore, files: FileStore, logs: LogStore, blobs: BlobStore, *, attempts: Sequence[Path]
    ) -> None:
        self._runs, self._files, self._logs, self._blobs, self._attempts = runs, files, logs, blobs, attempts

    def list(self, run_id: RunId, prefix: str = "") -> Sequence[ListedFile]:
        """Sorted by path."""
        self._runs.get(run_id)
        logs = {path: ListedFile(path, size, None) for path, size in self._logs.sizes(run_id).items()}
        entries = self._files.list(run_id, prefix)
        found = {path: log for path, log in logs.items() if path.startswith(prefix)}
        found.update({entry.path: ListedFile(entry.path, entry.size, entry.sha256) for entry in entries})
        return [found[path] for path in sorted(found)]

    def open(self, run_id: RunId, path: str) -> Content:
        path = check_relative_path(path, "path")
        entry = self._files.find(run_id, path)
        if entry is not None:
            return _content_of(self._blobs, run_id, entry)
        self._runs.get(run_id)
        size = self._logs.sizes(run_id).get(path)
        if size is None:
            raise NotFound(f"Run {run_id} has no file {path!r}.", hint="get_file_names() lists them.")
        return Content(size, pieces=lambda: self._log_pieces(run_id, path, size))

    def put(self, run_id: RunId, given: Sequence[FileEntry], *, fail_if_exists: bool = False) -> None:
        """Add or replace. Raises BlobsMissing, or AlreadyExists naming a path that is taken."""
        self._runs.get(run_id)
        entries = checked_entries(given)
        if fail_if_exists:
            taken = [entry.path for entry in entries if self._files.find(run_id, entry.path)]
            if taken:
                raise AlreadyExists(
                    f"Run {run_id} has a file {taken[0]!r} already.", hint="Choose another name.", paths=taken
                )
        require_blobs(self._blobs, entries)
        self._files.put(run_id, entries)

    def adopt(
        self,
        run_id: RunId,
        root: str,
        paths: Sequence[str],
        *,
        attempt_id: AttemptId | None,
        are_final: bool = False,
    ) -> Sequence[FileEntry]:
        """Take files of this machine in; returns those that were there. Where an attempt asks, only from the folders
        that its script writes to. `are_final` promises that the run's processes are gone, so that nobody can change
        the files any more."""
        self._runs.get(run_id)
        folder = real_path(root, "root")
        within = None
        if attempt_id is not None:
            within = Within((script_folder(self._attempts, attempt_id, folder, "root"),))
        for tries_left in reversed(range(TRIES_AGAINST_VANISHING_FILES)):
            found = list(plain_files(folder, paths))
            try:
                stored = self._blobs.put_files([path for _, path, _ in found], are_final=are_final, within=within)
                break
            except (FileNotFoundError, NotFound):
                if not tries_left:
                    raise
        entries = [
            FileEntry(path, sha256, size, mode) for (path, _, mode), (sha256, size) in zip(found, stored, strict=True)
        ]
        self._files.put(run_id, entries)
        return entries

    def below(self, run_id: RunId, path: str) -> Sequence[FileEntry]:
        """The file of that path, or all below that folder, logs turned into blobs as they are now."""
        entries = []
        for listed in self.list(run_id, path):
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


class Blobs:
    """Blobs as clients send and fetch them, before a snapshot, a run or a model names them."""

    def __init__(self, blobs: BlobStore, *, attempts: Sequence[Path]) -> None:
        self._blobs, self._attempts = blobs, attempts

    def missing(self, names: Sequence[str]) -> list[str]:
        return self._blobs.missing([check_sha256(name) for name in names])

    def put(self, sha256: str, pieces: Iterable[bytes]) -> int:
        return self._blobs.put(check_sha256(sha256), pieces)

    def put_many(self, blobs: Iterable[tuple[str, bytes]]) -> None:
        self._blobs.put_many((check_sha256(sha256), data) for sha256, data in blobs)

    def open(self, sha256: str) -> Content:
        return blob_content(self._blobs, check_sha256(sha256))

    def read(self, sha256: str) -> Iterator[bytes]:
        with self._blobs.open(check_sha256(sha256)) as source:
            while piece := source.read(PIECE_BYTES):
                yield piece

    def require_sound(self, entries: Sequence[FileEntry]) -> None:
        """Raises BlobDamaged naming the files whose content is missing or altered."""
        bad = []
        for entry in entries:
            try:
                self._blobs.verified_path(entry.sha256, size=entry.size)
            except (NotFound, BlobDamaged):
                bad.append(entry.path)
        if bad:
            raise BlobDamaged(
                f"{len(bad)} of {len(entries)} files are missing or damaged: {', '.join(map(repr, bad[:5]))}.",
                hint="`runyard check --repair --from FOLDER` brings them back from a backup.",
            )

    def adopt(self, paths: Sequence[str], *, attempt_id: AttemptId | None) -> list[tuple[str, int]]:
        """Where an attempt asks, only from the folders that its script writes to."""
        if attempt_id is None:
            return self._blobs.put_files([Path(os.path.realpath(named_file(path, "paths"))) for path in paths])
        found, within = script_files(self._attempts, attempt_id, paths, "paths")
        return self._blobs.put_files(found, within=within)


def blob_content(blobs: BlobStore, sha256: str, *, size: int | None = None) -> Content:
    """Raises NotFound, or BlobDamaged for content that is not what was stored."""
    path = blobs.verified_path(sha256, size=size)
    return Content(path.stat().st_size, path=path)


def _content_of(blobs: BlobStore, run_id: RunId, entry: FileEntry) -> Content:
    try:
        return blob_content(blobs, entry.sha256, size=entry.size)
    except (NotFound, BlobDamaged) as error:
        state = "missing from" if isinstance(error, NotFound) else "damaged on"
        raise BlobDamaged(
            f"The file {entry.path!r} of run {run_id} is {state} the service's disk.",
            hint="`runyard check --repair --from FOLDER` brings it back from a backup.",
        ) from error
