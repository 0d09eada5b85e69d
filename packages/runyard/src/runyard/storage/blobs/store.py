import fcntl
import os
import random
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from runyard.core.disk import disk_errors_explained
from runyard.core.errors import BlobDamaged, Conflict, NotFound
from runyard.core.names import check_sha256
from runyard.core.records.files import AllowedFolders
from runyard.storage.blobs.file_copy import hash_file
from runyard.storage.blobs.incoming import IncomingBlobs, remove_abandoned

_INCOMING = "incoming"
_LOCK = "lock"
_REREAD_SHARE = 1 / 64
_REPAIR = "Run: runyard check --repair"
_HOLD = "hold"
_FILES_AT_ONCE = 256  # each holds a descriptor until all are synced
_SHARD = re.compile(r"[0-9a-f]{2}")


class FileBlobStore:
    """Blobs as files `ab/<sha256>` below a folder. Safe among threads and processes."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._incoming = root / _INCOMING
        self._marks = VerifiedBlobs()
        with disk_errors_explained(root):
            self._incoming.mkdir(parents=True, exist_ok=True)

    def missing(self, names: Sequence[str]) -> list[str]:
        with self._deletion_lock():
            return [name for name in names if not self._touched(check_sha256(name))]

    def put(self, sha256: str, chunks: Iterable[bytes]) -> int:
        with self._incoming_blobs() as arrivals:
            if self._touched(check_sha256(sha256)):
                return self._path(sha256).stat().st_size
            size = arrivals.add_stream(sha256, chunks)
            arrivals.settle()
            return size

    def put_many(self, blobs: Iterable[tuple[str, bytes]]) -> None:
        with self._incoming_blobs() as arrivals:
            for count, (sha256, data) in enumerate(blobs, start=1):
                arrivals.add_bytes(check_sha256(sha256), data)
                if count % _FILES_AT_ONCE == 0:
                    arrivals.write_out()
            arrivals.settle()

    def put_files(
        self, paths: Sequence[Path], *, are_final: bool = False, within: AllowedFolders | None = None
    ) -> list[tuple[str, int]]:
        stored: list[tuple[str, int]] = []
        with self._incoming_blobs() as arrivals:
            for start in range(0, len(paths), _FILES_AT_ONCE):
                stored += [
                    arrivals.add_file(path, is_final=are_final, within=within)
                    for path in paths[start : start + _FILES_AT_ONCE]
                ]
                arrivals.write_out()
            arrivals.settle()
        return stored

    def open(self, sha256: str) -> BinaryIO:
        return open(self.verified_path(sha256), "rb")

    def verified_path(self, sha256: str, *, size: int | None = None, always: bool = False) -> Path:
        path = self._path(check_sha256(sha256))
        try:
            with open(path, "rb") as blob:
                facts = os.fstat(blob.fileno())
                has_size = size in (None, facts.st_size)
                is_known = self._marks.is_known(sha256, facts) and has_size and not always
                if not is_known or random.random() < _REREAD_SHARE:
                    self._verify(sha256, blob)
                if not has_size:  # the hash is right: the reference has a wrong size
                    raise BlobDamaged(f"The blob {sha256} has {facts.st_size} bytes, not {size}.", hint=_REPAIR)
        except FileNotFoundError as error:
            raise NotFound(f"There is no blob {sha256}.", hint="Send it again.") from error
        return path

    def _verify(self, sha256: str, blob: BinaryIO) -> None:
        facts = os.fstat(blob.fileno())
        found, _ = hash_file(blob.fileno())
        if found != sha256:
            raise self._damaged(sha256)
        self._marks.note(sha256, facts)

    def _damaged(self, sha256: str) -> BlobDamaged:
        """Mark the blob as missing, so that clients upload it again, and return the error."""
        self._marks.note_damaged(sha256)
        return BlobDamaged(f"The blob {sha256} is not what was stored: its file was altered.", hint=_REPAIR)

    def local_path(self, sha256: str) -> Path | None:
        path = self._path(check_sha256(sha256))
        return path if path.exists() else None

    def delete_unused(self, used: set[str], older_than_seconds: float) -> tuple[int, int]:
        """Also removes files of killed writers. `missing` and `put*` count as a touch of a blob.

        Raises Conflict while another process is inside `all_kept`.
        """
        limit = time.time() - older_than_seconds
        with self._locked(_HOLD, fcntl.LOCK_EX | fcntl.LOCK_NB):
            return self._delete_unused(used, limit)

    @contextmanager
    def all_kept(self) -> Iterator[None]:
        """Prevent all deletions of blobs inside the block; waits for a running deletion."""
        with self._locked(_HOLD, fcntl.LOCK_SH):
            yield

    def _delete_unused(self, used: set[str], limit: float) -> tuple[int, int]:
        count, freed = self.remove_abandoned()
        for shard in self._root.iterdir():
            if not _SHARD.fullmatch(shard.name):
                continue
            with self._deletion_lock(exclusively=True):
                for entry in os.scandir(shard):
                    facts = entry.stat(follow_symlinks=False)
                    if entry.name not in used and facts.st_mtime < limit:
                        os.unlink(entry.path)
                        self._marks.forget(entry.name)
                        count, freed = count + 1, freed + facts.st_size
        return count, freed

    def remove_abandoned(self) -> tuple[int, int]:
        with disk_errors_explained(self._root):
            return remove_abandoned(self._incoming)

    @contextmanager
    def _incoming_blobs(self) -> Iterator[IncomingBlobs]:
        arriving = IncomingBlobs(self._root, self._incoming, self._touched, self._marks.note)
        with self._deletion_lock(), disk_errors_explained(self._root), arriving as arrivals:
            yield arrivals

    def _path(self, sha256: str) -> Path:
        return self._root / sha256[:2] / sha256

    def _touched(self, sha256: str) -> bool:
        """True if it is stored and not known to be damaged. Marks it as used now."""
        path = f"{self._root}/{sha256[:2]}/{sha256}"
        try:
            is_known, now = self._marks.is_known(sha256, path), time.time_ns()
            os.utime(path, ns=(now, now))
            if is_known:
                self._marks.note_touched(sha256, now)
        except FileNotFoundError:
            return False
        return not self._marks.is_damaged(sha256)

    @contextmanager
    def _deletion_lock(self, *, exclusively: bool = False) -> Iterator[None]:
        """Shared or exclusive lock: a blob that was found inside the block is not deleted meanwhile."""
        with self._locked(_LOCK, fcntl.LOCK_EX if exclusively else fcntl.LOCK_SH):
            yield

    @contextmanager
    def _locked(self, name: str, operation: int) -> Iterator[None]:
        fd = os.open(self._root / name, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(fd, operation)
            except BlockingIOError:
                raise Conflict(
                    "A backup is being made, so no blob is deleted now.", hint="Try again when it has ended."
                ) from None
            yield
        finally:
            os.close(fd)


_MOST_KEPT = 200_000
_Mark = tuple[int, int, int]


class VerifiedBlobs:
    """Blobs that this process has hashed or written, with the inode, size and mtime of that time. Safe among threads.

    Only a cache: a forgotten blob is hashed again.
    """

    def __init__(self) -> None:
        self._marks: dict[str, _Mark] = {}
        self._damaged: set[str] = set()

    def note(self, sha256: str, facts: os.stat_result) -> None:
        if len(self._marks) >= _MOST_KEPT:
            self._marks.clear()
        self._marks[sha256] = _mark(facts)
        self._damaged.discard(sha256)

    def note_touched(self, sha256: str, mtime_ns: int) -> None:
        """Store the new mtime of a known file. If the disk has coarser times, the file is hashed again."""
        if mark := self._marks.get(sha256):
            self._marks[sha256] = (*mark[:2], mtime_ns)

    def note_damaged(self, sha256: str) -> None:
        self._marks.pop(sha256, None)
        self._damaged.add(sha256)

    def forget(self, sha256: str) -> None:
        """Remove a blob whose file was deleted."""
        self._marks.pop(sha256, None)
        self._damaged.discard(sha256)

    def is_damaged(self, sha256: str) -> bool:
        return sha256 in self._damaged

    def is_known(self, sha256: str, file: os.stat_result | str) -> bool:
        """True if the file is unchanged since its content was verified. Raises FileNotFoundError."""
        mark = self._marks.get(sha256)
        if mark is None:
            return False
        return mark == _mark(os.stat(file) if isinstance(file, str) else file)


def _mark(facts: os.stat_result) -> _Mark:
    return facts.st_ino, facts.st_size, facts.st_mtime_ns
