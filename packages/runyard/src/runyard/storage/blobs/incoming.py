import fcntl
import hashlib
import os
import secrets
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from runyard.core.disk import sync_folder, write_all
from runyard.core.errors import InvalidArgument
from runyard.core.records.files import AllowedFolders
from runyard.storage.blobs.file_copy import SMALL_BYTES, copy_and_hash, hash_file, open_source_file, start_writeback

_READ_ONLY = 0o444
_FEW_ITEMS = 4
_FLUSHES_AT_ONCE = 8
_Item = TypeVar("_Item")


class IncomingBlobs:
    """Blobs that are being stored: written to temporary files, synced together, then renamed to their hash.

    Leaving the block removes files that were not renamed. Each temporary file is locked by its writer, so
    `remove_abandoned` can tell which writers are gone.
    """

    def __init__(
        self,
        root: Path,
        incoming: Path,
        is_here: Callable[[str], bool],
        on_named: Callable[[str, os.stat_result], None],
    ) -> None:
        """`is_here(sha256)` tells if a blob is stored; `on_named(sha256, stat)` is called for every blob after its
        rename."""
        self._root, self._incoming, self._is_here, self._on_named = root, incoming, is_here, on_named
        self._written: dict[str, tuple[int, str]] = {}
        self._unfinished: set[tuple[int, str]] = set()
        self._changed_folders: set[Path] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for fd, name in list(self._unfinished):
            self._abandon(fd, name)

    def add_file(self, path: Path, *, is_final: bool = False, within: AllowedFolders | None = None) -> tuple[str, int]:
        """Add a file and return its sha256 and size; a stored blob is not written again."""
        with open_source_file(path, within) as (source, _):
            if is_final and (linked := self._linked(source)) is not None:
                return self._add_whole(*linked, hash_file(linked[0]))
            data = os.pread(source, SMALL_BYTES + 1, 0)
            if len(data) > SMALL_BYTES:
                return self._add_large(source)
        sha256 = hashlib.sha256(data).hexdigest()
        self._add_small(sha256, data)
        return sha256, len(data)

    def add_bytes(self, sha256: str, data: bytes) -> None:
        _check(sha256, hashlib.sha256(data).hexdigest())
        self._add_small(sha256, data)

    def add_stream(self, sha256: str, chunks: Iterable[bytes]) -> int:
        fd, name = self._temporary()
        digest, size = hashlib.sha256(), 0
        for chunk in chunks:
            write_all(fd, chunk)
            digest.update(chunk)
            size += len(chunk)
        _check(sha256, digest.hexdigest())
        self._keep(sha256, fd, name)
        return size

    def write_out(self) -> None:
        """Sync the added files and rename them to their hashes; closes their descriptors."""
        # Starting writeback for all files before waiting for any takes a third of the time. Starting it earlier slows
        # down the creation of files.
        for fd, _ in self._written.values():
            start_writeback(fd)
        _in_parallel(os.fdatasync, [fd for fd, _ in self._written.values()])
        for sha256, (fd, name) in self._written.items():
            self._rename(name, sha256)
            self._unfinished.discard((fd, name))
            self._on_named(sha256, os.fstat(fd))
            os.close(fd)
        self._written.clear()

    def settle(self) -> None:
        """Make everything added so far survive a power failure."""
        self.write_out()
        _in_parallel(sync_folder, list(self._changed_folders))
        self._changed_folders.clear()

    def _add_small(self, sha256: str, data: bytes) -> None:
        if sha256 not in self._written and not self._is_here(sha256):
            fd, name = self._temporary()
            write_all(fd, data)
            self._keep(sha256, fd, name)

    def _add_large(self, source: int) -> tuple[str, int]:
        fd, name = self._temporary()
        return self._add_whole(fd, name, copy_and_hash(source, fd))

    def _add_whole(self, fd: int, name: str, facts: tuple[str, int]) -> tuple[str, int]:
        sha256, size = facts
        if sha256 in self._written or self._is_here(sha256):
            self._abandon(fd, name)
        else:
            self._keep(sha256, fd, name)
        return sha256, size

    def _linked(self, source: int) -> tuple[int, str] | None:
        """Hard link to the open file; None if that is not possible or the file has other links."""
        if os.fstat(source).st_nlink != 1:
            return None
        name = f"{self._incoming}/{secrets.token_hex(16)}"
        try:
            # Link the open file, whatever its path leads to by now. Python follows the /proc link only if src_dir_fd is
            # given.
            os.link(f"/proc/self/fd/{source}", name, src_dir_fd=source, follow_symlinks=True)
        except OSError:
            return None  # another file system, or one without hard links: copy instead
        try:
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return None  # `remove_abandoned` removed it before it was locked
        self._unfinished.add((fd, name))
        # Shared: it keeps `remove_abandoned` out without disturbing other readers that lock the file.
        if not (_locked(fd, name, fcntl.LOCK_SH) and os.path.samestat(os.fstat(fd), os.fstat(source))):
            self._abandon(fd, name)
            return None
        return fd, name

    def _temporary(self) -> tuple[int, str]:
        while True:
            name = f"{self._incoming}/{secrets.token_hex(16)}"
            fd = os.open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, _READ_ONLY)
            self._unfinished.add((fd, name))
            if _locked(fd, name, fcntl.LOCK_EX):
                return fd, name
            self._abandon(fd, name)

    def _keep(self, sha256: str, fd: int, name: str) -> None:
        self._written[sha256] = fd, name

    def _abandon(self, fd: int, name: str) -> None:
        self._unfinished.discard((fd, name))
        with suppress(FileNotFoundError):
            os.unlink(name)
        os.close(fd)

    def _rename(self, name: str, sha256: str) -> None:
        shard = self._root / sha256[:2]
        try:
            os.rename(name, f"{shard}/{sha256}")
        except FileNotFoundError:
            shard.mkdir(exist_ok=True)
            self._changed_folders.add(self._root)
            os.rename(name, f"{shard}/{sha256}")
        self._changed_folders.add(shard)


def remove_abandoned(incoming: Path) -> tuple[int, int]:
    """Remove temporary files whose writers are gone; returns (count, bytes). Files that are being written stay."""
    count = size = 0
    for entry in os.scandir(incoming):
        try:
            fd = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # it was renamed, or its writer removed it
        try:
            if _locked(fd, entry.path, fcntl.LOCK_EX):
                os.unlink(entry.path)
                count, size = count + 1, size + os.fstat(fd).st_size
        finally:
            os.close(fd)
    return count, size


def _locked(fd: int, name: str, how: int) -> bool:
    """Lock an open file; False if another process holds the lock, or `name` is no longer that file."""
    try:
        fcntl.flock(fd, how | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(fd), os.stat(name, follow_symlinks=False))
    except (BlockingIOError, FileNotFoundError):
        return False


def _check(named: str, actual: str) -> None:
    if actual != named:
        raise InvalidArgument(f"The bytes sent as blob {named} have the sha256 {actual}.", hint="Send the file again.")


def _in_parallel(sync: Callable[[_Item], None], items: Sequence[_Item]) -> None:
    """Sync many files in parallel: disks handle many flushes in the time of one."""
    if len(items) < _FEW_ITEMS:
        for item in items:
            sync(item)
        return
    with ThreadPoolExecutor(_FLUSHES_AT_ONCE, "blob-sync") as pool:
        list(pool.map(sync, items))
