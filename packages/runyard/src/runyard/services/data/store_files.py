import shutil
import uuid
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from os.path import commonpath
from pathlib import Path

from runyard.blobs.sources import opened_source
from runyard.core.policy import Action
from runyard.core.principal import Principal
from runyard.datastores.refusals import source_changed
from runyard.errors import AlreadyExists, InvalidArgument, NotFound, RunyardError
from runyard.model.data import StoredFile
from runyard.model.names import check_relative_path
from runyard.model.runs import AttemptId
from runyard.ports.data import DataStore
from runyard.runs.history.folders import named_file, script_files
from runyard.services.access import Access
from runyard.services.content import Content
from runyard.services.data.deadline import bounded
from runyard.services.data.network import Network
from runyard.services.data.open_stores import OpenStores
from runyard.transfers import upload

PART_BYTES = 4 * 1024 * 1024
PARTS_AHEAD = 4
ASKED_ONE_BY_ONE = 8
READERS = 16


class StoreFiles:
    """The files on a workspace's datastores. A file appears whole or not at all."""

    def __init__(
        self, stores: OpenStores, network: Network, access: Access, *, incoming: Path, attempts: Sequence[Path]
    ) -> None:
        self._stores, self._network, self._access = stores, network, access
        self._incoming, self._attempts = incoming, attempts
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="reading")

    def forget_incoming(self) -> None:
        """Remove what a service that was killed left half written. Only for a service that has just begun."""
        shutil.rmtree(self._incoming, ignore_errors=True)

    def list(self, who: Principal, workspace: str, name: str, prefix: str = "") -> Sequence[StoredFile]:
        """Sorted by path. The prefix is of the text, so 'a/b' finds 'a/bc' too."""
        return list(bounded(self.walk(who, workspace, name, prefix), f"datastore {name!r}"))

    def walk(self, who: Principal, workspace: str, name: str, prefix: str = "") -> Iterator[StoredFile]:
        """The same as they are found, for as long as that takes."""
        self._access.files(who, Action.READ_FILES, workspace, name, prefix)
        found, may_read = self._open(workspace, name).list(prefix), self._access.may_read_file
        if may_read(who, workspace, name, ""):
            return found
        return (file for file in found if may_read(who, workspace, name, file.path))

    def stat(self, who: Principal, workspace: str, name: str, path: str) -> StoredFile:
        self._access.files(who, Action.READ_FILES, workspace, name, path)
        return self._open(workspace, name).stat(path)

    def open(self, who: Principal, workspace: str, name: str, path: str, etag: str = "") -> Content:
        """With `etag`, SourceChanged when the file is another by now."""
        self._access.files(who, Action.READ_FILES, workspace, name, path)
        store = self._open(workspace, name)
        file = store.stat(path)
        if etag and file.etag != etag:
            raise source_changed(path)
        return self.content(store, file)

    def read_many(
        self, who: Principal, workspace: str, name: str, files: Sequence[tuple[str, int, str]]
    ) -> Iterator[tuple[int, bytes | memoryview]]:
        """Small files, asked for as (path, size, etag), each with its place among those. One that is another by now,
        or cannot be read, is left out."""
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

    def content(self, store: DataStore, file: StoredFile) -> Content:
        """The file as it was seen: SourceChanged, while it is sent, where it is another by then."""
        if file.size is None or not file.is_ranged:
            return self._fetched(store, file)
        size = file.size

        def part(start: int, length: int) -> Iterator[bytes | memoryview]:
            return self._parts(store, file, start, length)

        return Content(size, part=part, etag=file.etag)

    def put(
        self, who: Principal, workspace: str, name: str, path: str, pieces: Iterable[bytes], *, overwrite: bool
    ) -> StoredFile:
        """The file as it is stored. Raises AlreadyExists unless `overwrite`."""
        self._access.files(who, Action.WRITE_FILES, workspace, name, path)
        path = check_relative_path(path, "path")
        store = self._open(workspace, name)
        if not overwrite and _exists(store, path):
            raise AlreadyExists(f"Datastore {name!r} has a file {path!r} already.", hint="Pass overwrite=True.")
        with self._beside() as beside:
            with beside.open("wb") as new:
                for piece in pieces:
                    new.write(piece)
            return store.put(path, beside, overwrite=overwrite, progress=_unheard)

    def put_many(
        self, who: Principal, workspace: str, name: str, files: Iterable[tuple[str, bytes]], *, overwrite: bool
    ) -> Sequence[StoredFile]:
        """Small files, synced together. After an error some may be stored, each of them whole."""
        self._access.some_files(who, Action.WRITE_FILES, workspace, name)
        store = self._open(workspace, name)
        with ExitStack() as held:
            items = []
            for path, content in files:
                self._access.files(who, Action.WRITE_FILES, workspace, name, path)
                beside = held.enter_context(self._beside())
                beside.write_bytes(content)
                items.append((beside, check_relative_path(path, "path")))
            return upload(items, store, overwrite=overwrite, progress=_unheard)

    def delete(self, who: Principal, workspace: str, name: str, path: str) -> None:
        """Quiet when gone."""
        self._access.files(who, Action.DELETE_FILES, workspace, name, path)
        self._open(workspace, name).delete(path)

    def adopt(
        self, who: Principal, workspace: str, name: str, items: Sequence[tuple[str, str]], *, overwrite: bool
    ) -> tuple[Sequence[str], Sequence[str]]:
        """Copy files of this machine in; returns target paths (written, skipped because they were there). Where a
        script asks, only from the folders that it writes to.

        Where two do so at once, each file is of one of them, and skipped by the other."""
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
                upload([(source, path) for path, source in wanted.items()], store, overwrite=True, progress=_unheard)
                return list(wanted), []
            written = _upload_missing(wanted, store)
            return written, [path for path in wanted if path not in written]

    def _require_all(self, who: Principal, action: Action, workspace: str, name: str, paths: Sequence[str]) -> None:
        self._access.some_files(who, action, workspace, name)
        for path in paths:
            self._access.files(who, action, workspace, name, path)

    def _copied(self, attempt_id: AttemptId, paths: Sequence[str], held: ExitStack) -> Sequence[Path]:
        """Copies of a script's files that are there while `held`: a store opens its sources by path, and a script can
        have its own lead elsewhere at any moment."""
        found, within = script_files(self._attempts, attempt_id, paths, "source")
        copies = []
        for path in found:
            beside = held.enter_context(self._beside())
            with (
                opened_source(path, within) as (fd, _),
                open(fd, "rb", closefd=False) as source,
                beside.open("wb") as new,
            ):
                shutil.copyfileobj(source, new, PART_BYTES)
            copies.append(beside)
        return copies

    def _open(self, workspace: str, name: str) -> DataStore:
        return self._stores.open(workspace, name, self._network.for_request({}))

    def _parts(self, store: DataStore, file: StoredFile, start: int, length: int) -> Iterator[bytes | memoryview]:
        """A few parts are asked for ahead of the one that is being sent."""
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

    def _fetched(self, store: DataStore, file: StoredFile) -> Content:
        """Brought whole first: what cannot be read in parts may break off in the middle."""
        with self._beside() as beside:
            store.fetch(file, beside, _unheard)
            opened = beside.open("rb")
        size = opened.seek(0, 2)

        def part(start: int, length: int) -> Iterator[bytes]:
            with opened:
                opened.seek(start)
                while length and (piece := opened.read(min(PART_BYTES, length))):
                    length -= len(piece)
                    yield piece

        return Content(size, part=part)

    @contextmanager
    def _beside(self) -> Iterator[Path]:
        """A place for a file being written; what is there at the end goes."""
        self._incoming.mkdir(parents=True, exist_ok=True)
        path = self._incoming / uuid.uuid4().hex
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)


def _unheard(size: int) -> None:
    """Nobody watches."""


def _exists(store: DataStore, path: str) -> bool:
    try:
        store.stat(path)
    except NotFound:
        return False
    return True


def _upload_missing(wanted: Mapping[str, Path], store: DataStore) -> Sequence[str]:
    """The paths of those that were not there."""
    there = _there(store, list(wanted))
    while True:
        fresh = [path for path in wanted if path not in there]
        try:
            upload([(wanted[path], path) for path in fresh], store, overwrite=False, progress=_unheard)
        except AlreadyExists:  # another upload was quicker with one of them
            before, there = there, _there(store, list(wanted))
            if there <= before:
                raise
        else:
            return fresh


def _there(store: DataStore, paths: Sequence[str]) -> set[str]:
    """Those of the paths that have a file: asked for one by one when few, else found in a listing."""
    if len(paths) <= ASKED_ONE_BY_ONE:
        return {path for path in paths if _exists(store, path)}
    wanted = set(paths)
    above = commonpath(paths)
    listed = bounded(store.list(f"{above}/" if above else ""), "the datastore")
    return wanted & {file.path for file in listed}
