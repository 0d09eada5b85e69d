import shutil
import uuid
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from os.path import commonpath
from pathlib import Path

from runyard.access.authorization import Access
from runyard.access.local_files import named_file, script_files
from runyard.core.errors import AlreadyExists, InvalidArgument, NotFound, RunyardError
from runyard.core.names import check_relative_path
from runyard.core.policy import Action
from runyard.core.ports.data import DataStore
from runyard.core.principal import Principal
from runyard.core.records.data import StoredFile
from runyard.core.records.runs import AttemptId
from runyard.data.datasets.listing_limit import bounded_listing
from runyard.data.datasets.network_policy import NetworkPolicy
from runyard.data.datasets.open_datastores import OpenDatastores
from runyard.data.datastores.paths import source_changed
from runyard.data.transfers import upload
from runyard.storage.blobs.content import FileContent
from runyard.storage.blobs.file_copy import open_source_file

PART_BYTES = 4 * 1024 * 1024
PARTS_AHEAD = 4
ASKED_ONE_BY_ONE = 8
READERS = 16


class DatastoreFiles:
    """Use cases of files on datastores. A file appears whole or not at all."""

    def __init__(
        self,
        stores: OpenDatastores,
        network: NetworkPolicy,
        access: Access,
        *,
        incoming: Path,
        attempts: Sequence[Path],
    ) -> None:
        self._stores, self._network, self._access = stores, network, access
        self._incoming, self._attempts = incoming, attempts
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="reading")

    def forget_incoming(self) -> None:
        """Remove partial files of a service that was killed. Call it only when the service starts."""
        shutil.rmtree(self._incoming, ignore_errors=True)

    def list(self, who: Principal, workspace: str, name: str, prefix: str = "") -> Sequence[StoredFile]:
        """Files sorted by path. The prefix is plain text: 'a/b' finds 'a/bc' too."""
        return list(bounded_listing(self.walk(who, workspace, name, prefix), f"datastore {name!r}"))

    def walk(self, who: Principal, workspace: str, name: str, prefix: str = "") -> Iterator[StoredFile]:
        """Files as they are found, as `list`, without a limit of time."""
        self._access.files(who, Action.READ_FILES, workspace, name, prefix)
        found, may_read = self._open(workspace, name).list(prefix), self._access.may_read_file
        if may_read(who, workspace, name, ""):
            return found
        return (file for file in found if may_read(who, workspace, name, file.path))

    def stat(self, who: Principal, workspace: str, name: str, path: str) -> StoredFile:
        self._access.files(who, Action.READ_FILES, workspace, name, path)
        return self._open(workspace, name).stat(path)

    def open(self, who: Principal, workspace: str, name: str, path: str, etag: str = "") -> FileContent:
        """Open a file. With `etag`, raises SourceChanged if the file has changed."""
        self._access.files(who, Action.READ_FILES, workspace, name, path)
        store = self._open(workspace, name)
        file = store.stat(path)
        if etag and file.etag != etag:
            raise source_changed(path)
        return self.content(store, file)

    def read_many(
        self, who: Principal, workspace: str, name: str, files: Sequence[tuple[str, int, str]]
    ) -> Iterator[tuple[int, bytes | memoryview]]:
        """Yield (number, content) of small files given as (path, size, etag).

        Files that have changed or cannot be read are left out.
        """
        self._require_all(who, Action.READ_FILES, workspace, name, [path for path, _, _ in files])
        store = self._open(workspace, name)

        def found() -> Iterator[tuple[int, bytes | memoryview]]:
            for number, (path, size, etag) in enumerate(files):
                try:
                    content = store.read(path, 0, size, etag=etag)
                except RunyardError:
                    continue
                yield number, content

        return found()

    def content(self, store: DataStore, file: StoredFile) -> FileContent:
        """Content of a file as it was listed. Reading it raises SourceChanged if the file has changed."""
        if file.size is None or not file.is_ranged:
            return self._fetched(store, file)
        size = file.size

        def part(start: int, length: int) -> Iterator[bytes | memoryview]:
            return self._parts(store, file, start, length)

        return FileContent(size, part=part, etag=file.etag)

    def put(
        self, who: Principal, workspace: str, name: str, path: str, pieces: Iterable[bytes], *, overwrite: bool
    ) -> StoredFile:
        """Store a file. Raises AlreadyExists if the path is taken, unless `overwrite`."""
        self._access.files(who, Action.WRITE_FILES, workspace, name, path)
        path = check_relative_path(path, "path")
        store = self._open(workspace, name)
        if not overwrite and _exists(store, path):
            raise AlreadyExists(f"Datastore {name!r} has a file {path!r} already.", hint="Pass overwrite=True.")
        with self._temporary() as beside:
            with beside.open("wb") as new:
                for piece in pieces:
                    new.write(piece)
            return store.put(path, beside, overwrite=overwrite, progress=_no_progress)

    def put_many(
        self, who: Principal, workspace: str, name: str, files: Iterable[tuple[str, bytes]], *, overwrite: bool
    ) -> Sequence[StoredFile]:
        """Store small files, synced together. After an error some may be stored, each whole."""
        self._access.some_files(who, Action.WRITE_FILES, workspace, name)
        store = self._open(workspace, name)
        with ExitStack() as held:
            items = []
            for path, content in files:
                self._access.files(who, Action.WRITE_FILES, workspace, name, path)
                beside = held.enter_context(self._temporary())
                beside.write_bytes(content)
                items.append((beside, check_relative_path(path, "path")))
            return upload(items, store, overwrite=overwrite, progress=_no_progress)

    def delete(self, who: Principal, workspace: str, name: str, path: str) -> None:
        """Delete a file; quiet if it is gone."""
        self._access.files(who, Action.DELETE_FILES, workspace, name, path)
        self._open(workspace, name).delete(path)

    def adopt(
        self, who: Principal, workspace: str, name: str, items: Sequence[tuple[str, str]], *, overwrite: bool
    ) -> tuple[Sequence[str], Sequence[str]]:
        """Copy files of this machine to the datastore. Returns the target paths (written, skipped since they exist).

        A script may copy only from the folders that it writes to. Of two calls at once, one writes a file and the
        other skips it.
        """
        self._require_all(who, Action.ADOPT_FILES, workspace, name, [path for _, path in items])
        targets = [check_relative_path(path, "target path") for _, path in items]
        if len(set(targets)) < len(items):
            raise InvalidArgument("items names a target path twice.", hint="Give each file a path of its own.")
        store = self._open(workspace, name)
        with ExitStack() as held:
            given = [source for source, _ in items]
            attempt = who.attempt_id
            sources = self._copied(attempt, given, held) if attempt else [named_file(one, "source") for one in given]
            wanted = dict(zip(targets, sources, strict=True))
            if overwrite:
                renamed = [(source, path) for path, source in wanted.items()]
                upload(renamed, store, overwrite=True, progress=_no_progress)
                return list(wanted), []
            written = _upload_missing(wanted, store)
            return written, [path for path in wanted if path not in written]

    def _require_all(self, who: Principal, action: Action, workspace: str, name: str, paths: Sequence[str]) -> None:
        self._access.some_files(who, action, workspace, name)
        for path in paths:
            self._access.files(who, action, workspace, name, path)

    def _copied(self, attempt_id: AttemptId, paths: Sequence[str], held: ExitStack) -> Sequence[Path]:
        """Copies of a script's files, removed when `held` closes.

        A store opens its sources by path, and the script could replace a file by a link in between.
        """
        found, within = script_files(self._attempts, attempt_id, paths, "source")
        copies = []
        for path in found:
            beside = held.enter_context(self._temporary())
            with (
                open_source_file(path, within) as (fd, _),
                open(fd, "rb", closefd=False) as source,
                beside.open("wb") as new,
            ):
                shutil.copyfileobj(source, new, PART_BYTES)
            copies.append(beside)
        return copies

    def _open(self, workspace: str, name: str) -> DataStore:
        return self._stores.open(workspace, name, self._network.for_request({}))

    def _parts(self, store: DataStore, file: StoredFile, start: int, length: int) -> Iterator[bytes | memoryview]:
        """Read parts, a few ahead of the one that is being sent."""
        if length <= PART_BYTES:
            yield store.read(file.path, start, length, etag=file.etag)
            return
        waiting: deque[Future[bytes | memoryview]] = deque()
        ends = start + length
        try:
            while start < ends or waiting:
                while start < ends and len(waiting) < PARTS_AHEAD:
                    size = min(PART_BYTES, ends - start)
                    waiting.append(self._readers.submit(store.read, file.path, start, size, etag=file.etag))
                    start += size
                yield waiting.popleft().result()
        finally:
            for part in waiting:
                part.cancel()

    def _fetched(self, store: DataStore, file: StoredFile) -> FileContent:
        """Fetch the whole file first: a file without ranges could not be resumed in the middle."""
        with self._temporary() as beside:
            store.fetch(file, beside, _no_progress)
            opened = beside.open("rb")
        size = opened.seek(0, 2)

        def part(start: int, length: int) -> Iterator[bytes]:
            with opened:
                opened.seek(start)
                while length and (piece := opened.read(min(PART_BYTES, length))):
                    length -= len(piece)
                    yield piece

        return FileContent(size, part=part)

    @contextmanager
    def _temporary(self) -> Iterator[Path]:
        """Temporary path, removed at the end of the block."""
        self._incoming.mkdir(parents=True, exist_ok=True)
        path = self._incoming / uuid.uuid4().hex
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)


def _no_progress(size: int) -> None:
    """Ignore progress."""


def _exists(store: DataStore, path: str) -> bool:
    try:
        store.stat(path)
    except NotFound:
        return False
    return True


def _upload_missing(wanted: Mapping[str, Path], store: DataStore) -> Sequence[str]:
    """Upload the files that do not exist yet. Returns their paths."""
    there = _existing(store, list(wanted))
    while True:
        fresh = [path for path in wanted if path not in there]
        try:
            upload([(wanted[path], path) for path in fresh], store, overwrite=False, progress=_no_progress)
        except AlreadyExists:  # another upload has just stored one of them
            before, there = there, _existing(store, list(wanted))
            if there <= before:
                raise
        else:
            return fresh


def _existing(store: DataStore, paths: Sequence[str]) -> set[str]:
    """Paths that exist: by a stat each if there are few, else by a listing."""
    if len(paths) <= ASKED_ONE_BY_ONE:
        return {path for path in paths if _exists(store, path)}
    wanted = set(paths)
    above = commonpath(paths)
    listed = bounded_listing(store.list(f"{above}/" if above else ""), "the datastore")
    return wanted & {file.path for file in listed}
