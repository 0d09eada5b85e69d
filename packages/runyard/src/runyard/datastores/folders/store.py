import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from runyard.blobs.disk import explained
from runyard.datastores.copying import copy
from runyard.datastores.folders.arriving import store_files
from runyard.datastores.folders.beneath import Root
from runyard.datastores.folders.walking import walk
from runyard.datastores.paths import check_path, check_prefix, shown
from runyard.datastores.refusals import past_end, source_changed
from runyard.datastores.unfinished import unfinished_beside
from runyard.errors import InvalidArgument, NotFound
from runyard.model.data import StoredFile
from runyard.ports.data import Progress


class FolderStore:
    """Datastore in a plain folder. Other programs may change it at any time: an etag is of size, mtime and ctime.

    A file is durable when `put` returns.
    """

    def __init__(self, folder: Path) -> None:
        if not folder.is_absolute():
            raise InvalidArgument(f"The folder {shown(str(folder))} is relative.", hint="Give an absolute path.")
        self._root = Root(folder)

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
            with explained(target.parent), unfinished_beside(target) as copied:
                size = copy(source, copied.fd, progress)
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
        facts = store_files(self._root, checked, overwrite=overwrite, progress=progress)
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
