import errno
import os
import stat
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path

from runyard.core.disk import disk_errors_explained
from runyard.core.errors import InvalidArgument, NotFound
from runyard.core.names import check_text, quoted_text
from runyard.core.ports.data import Progress
from runyard.core.records.data import StoredFile
from runyard.data.datastores.folder_root import FolderRoot
from runyard.data.datastores.local_files import (
    AtomicFile,
    atomic_file_beside,
    atomic_file_in,
    is_temporary_name,
)
from runyard.data.datastores.paths import check_path, check_prefix, past_end, source_changed
from runyard.storage.blobs.file_copy import copy_file, open_source_file, start_writeback


class FolderStore:
    """Datastore in a plain folder. Other programs may change it at any time: an etag is of size, mtime and ctime.

    A file is durable when `put` returns.
    """

    def __init__(self, folder: Path) -> None:
        if not folder.is_absolute():
            raise InvalidArgument(f"The folder {quoted_text(str(folder))} is relative.", hint="Give an absolute path.")
        self._root = FolderRoot(folder)

    @property
    def identity(self) -> str:
        return f"folder:{self._root.real}"

    @property
    def local_root(self) -> Path | None:
        return self._root.folder

    @property
    def is_writable(self) -> bool:
        return os.access(self._root.folder, os.W_OK)

    def list(self, prefix: str = "") -> Iterator[StoredFile]:
        for path, facts in walk(self._root, check_prefix(prefix)):
            yield _stored(path, facts)

    def stat(self, path: str) -> StoredFile:
        path = check_path(path)
        return _stored(path, self._root.stat(path))

    def read(self, path: str, start: int, length: int, *, etag: str = "") -> bytes | memoryview:
        path = check_path(path)
        with self._root.explained(path), self._root.open_file(path) as fd:
            facts = os.fstat(fd)
            _check_etag(path, etag, facts)
            if start < 0 or length < 0 or start + length > facts.st_size:
                raise past_end(path)
            data = _read_exactly(fd, start, length)
            if len(data) < length or (etag and _etag(os.fstat(fd)) != etag):
                raise source_changed(path)
            return data

    def fetch(self, file: StoredFile, target: Path, progress: Progress) -> StoredFile:
        path = check_path(file.path)
        with self._root.explained(path), self._root.open_file(path) as source:
            facts = os.fstat(source)
            _check_etag(path, file.etag, facts)
            with disk_errors_explained(target.parent), atomic_file_beside(target) as copied:
                size = copy_file(source, copied.fd, progress)
                if size != facts.st_size or _etag(os.fstat(source)) != _etag(facts):
                    raise source_changed(path)
                copied.replace(target.name)
        return _stored(path, facts)

    def put(self, path: str, source: Path, *, overwrite: bool, progress: Progress) -> StoredFile:
        return self.put_many([(path, source)], overwrite=overwrite, progress=progress)[0]

    def put_many(
        self, items: Sequence[tuple[str, Path]], *, overwrite: bool, progress: Progress
    ) -> Sequence[StoredFile]:
        checked = [(check_path(path), source) for path, source in items]
        facts = put_files(self._root, checked, overwrite=overwrite, progress=progress)
        return [_stored(path, each) for (path, _), each in zip(checked, facts, strict=True)]

    def delete(self, path: str) -> None:
        path = check_path(path)
        parent, _, name = path.rpartition("/")
        with suppress(NotFound), self._root.explained(path), self._root.open_folder(parent) as folder:
            os.unlink(name, dir_fd=folder)
            os.fsync(folder)


def _stored(path: str, facts: os.stat_result) -> StoredFile:
    return StoredFile(path, facts.st_size, _etag(facts), datetime.fromtimestamp(facts.st_mtime, UTC))


def _etag(facts: os.stat_result) -> str:
    return f"{facts.st_size:x}-{facts.st_mtime_ns:x}-{facts.st_ctime_ns:x}"


def _check_etag(path: str, etag: str, facts: os.stat_result) -> None:
    if etag and etag != _etag(facts):
        raise source_changed(path)


def _read_exactly(fd: int, start: int, length: int) -> bytes:
    """Read up to the end of the file: one pread returns at most 2 GiB."""
    data = os.pread(fd, length, start)
    if len(data) == length or not data:
        return data
    pieces = [data]
    while piece := os.pread(fd, length - sum(map(len, pieces)), start + sum(map(len, pieces))):
        pieces.append(piece)
    return b"".join(pieces)


def walk(root: FolderRoot, prefix: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield every regular file whose path begins with the prefix, sorted by path.

    Raises AccessDenied at a link that leads out of the root: to skip it would lose data silently. Dangling links are
    skipped.
    """
    folder, slash, name = prefix.rpartition("/")
    if os.path.exists(f"{root.folder}/{folder}") and not root.contains(f"{root.folder}/{folder}"):
        raise root.leads_out(folder)
    yield from _walk(root, f"{folder}{slash}", name, frozenset())


def _walk(
    root: FolderRoot, folder: str, name: str, above: frozenset[tuple[int, int]]
) -> Iterator[tuple[str, os.stat_result]]:
    for entry, facts in _entries(root, folder, name):
        path = check_text(folder + entry.name, "path")
        if entry.is_symlink() and not root.contains(entry.path):
            raise root.leads_out(path)
        if stat.S_ISREG(facts.st_mode):
            yield path, facts
        elif stat.S_ISDIR(facts.st_mode):
            here = (facts.st_dev, facts.st_ino)
            if here not in above:  # else it is a link to one of its own parents
                yield from _walk(root, f"{path}/", "", above | {here})


def _entries(root: FolderRoot, folder: str, name: str) -> list[tuple[os.DirEntry[str], os.stat_result]]:
    """Entries in the order of the paths below them: 'a-b' comes before 'a/b'."""
    try:
        with os.scandir(f"{root.folder}/{folder}") as entries:
            found = [
                (f"{entry.name}/" if stat.S_ISDIR(facts.st_mode) else entry.name, entry, facts)
                for entry in entries
                if entry.name.startswith(name) and not is_temporary_name(entry.name) and (facts := _facts(entry))
            ]
    except (FileNotFoundError, NotADirectoryError) as error:
        if root.folder.is_dir():
            return []  # no such folder, or it was removed just now
        raise root.explain(folder, error) from error
    except OSError as error:
        raise root.explain(folder, error) from error
    found.sort(key=lambda each: each[0])
    return [(entry, facts) for _, entry, facts in found]


def _facts(entry: os.DirEntry[str]) -> os.stat_result | None:
    """Stat, or None for a dangling link and for an entry that was removed just now."""
    try:
        return entry.stat()
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return None
        raise


_AT_ONCE = 128  # each needs a descriptor, and its folder may need another
_FEW = 4
_SYNCS_AT_ONCE = 8  # a disk syncs several files in the time of one


def put_files(
    root: FolderRoot, items: Sequence[tuple[str, Path]], *, overwrite: bool, progress: Progress
) -> list[os.stat_result]:
    """Store each (path, source) durably and return its stat. After an error some files may be stored, each whole.

    Files are written without a visible name, synced together, and only then get their names.
    """
    stored: list[os.stat_result] = []
    for start in range(0, len(items), _AT_ONCE):
        with ExitStack() as held:
            arrivals = _PutBatch(root, held)
            for path, source in items[start : start + _AT_ONCE]:
                arrivals.write(path, source, progress)
            stored += arrivals.settle(overwrite=overwrite)
    return stored


class _PutBatch:
    def __init__(self, root: FolderRoot, held: ExitStack) -> None:
        self._root, self._held = root, held
        self._folders: dict[str, int] = {}
        self._written: list[tuple[str, AtomicFile]] = []

    def write(self, path: str, source: Path, progress: Progress) -> None:
        parent = path.rpartition("/")[0]
        with (
            open_source_file(source.resolve() if source.is_symlink() else source) as (original, _),
            self._root.explained(path),
        ):
            if parent not in self._folders:
                self._folders[parent] = self._held.enter_context(self._root.open_folder(parent, make=True))
            file = self._held.enter_context(atomic_file_in(self._folders[parent]))
            copy_file(original, file.fd, progress)
        self._written.append((path, file))

    def settle(self, *, overwrite: bool) -> list[os.stat_result]:
        self._sync()
        for path, file in self._written:
            name = path.rpartition("/")[2]
            with self._root.explained(path):
                file.replace(name) if overwrite else file.create(name)
        for parent, folder in self._folders.items():
            with self._root.explained(parent):
                os.fsync(folder)
        return [os.fstat(file.fd) for _, file in self._written]

    def _sync(self) -> None:
        descriptors = [file.fd for _, file in self._written]
        with self._root.explained(self._written[-1][0]):
            if len(descriptors) < _FEW:
                for fd in descriptors:
                    os.fdatasync(fd)
                return
            for fd in descriptors:
                start_writeback(fd)
            with ThreadPoolExecutor(_SYNCS_AT_ONCE, "store-sync") as pool:
                list(pool.map(os.fdatasync, descriptors))
