import bisect
import builtins
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import obstore

from runyard.blobs.disk import explained, write_all
from runyard.blobs.sources import opened_source
from runyard.datastores.objects.connecting import connect
from runyard.datastores.objects.etags import bare_etag, quoted_etag
from runyard.datastores.objects.faults import FAULTS, explain
from runyard.datastores.objects.uploading import Upload
from runyard.datastores.paths import check_prefix, shown
from runyard.datastores.refusals import past_end, source_changed
from runyard.datastores.unfinished import unfinished_beside
from runyard.errors import NotFound, TooLarge, Unreachable
from runyard.model.data import NetworkRules, StoreAccess, StoredFile
from runyard.ports.data import Progress

if TYPE_CHECKING:
    from obstore import GetOptions, ObjectMeta

_Answer = TypeVar("_Answer")
_LISTED_AT_ONCE = 1000
_FETCHED_AT_ONCE = 1 << 23
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0


class ObjectStore:
    """Datastore in a bucket of S3 or Google Cloud Storage, or in a container of Azure Blob Storage, through obstore.

    After a process has used one, a forked child must not: obstore's threads do not survive a fork.
    """

    def __init__(self, access: StoreAccess, rules: NetworkRules) -> None:
        self._client, self._location = connect(access, rules)
        self._rules = rules
        self._is_container_seen = False

    def __repr__(self) -> str:
        return f"ObjectStore({self._location.identity})"

    @property
    def identity(self) -> str:
        return self._location.identity

    @property
    def local_root(self) -> Path | None:
        return None

    @property
    def is_writable(self) -> bool:
        """Always True: only the first `put` shows whether the credentials allow writing."""
        return True

    def list(self, prefix: str = "") -> Iterator[StoredFile]:
        prefix = check_prefix(prefix)
        folder = prefix.rpartition("/")[0]
        found = self._ask(folder, lambda: self._listed(folder, prefix))
        self._is_container_seen = True
        paths = [file.path for file in found]
        return (file for file in found if file.size or not _is_folder(file.path, paths))

    def stat(self, path: str) -> StoredFile:
        key = self._location.key(path)
        try:
            return _stored(key, self._ask(key, lambda: obstore.head(self._client, key)))
        except NotFound:
            self._check_container()  # a 404 to HEAD does not say whether object or container is missing
            raise

    def read(self, path: str, start: int, length: int, *, etag: str = "") -> bytes | memoryview:
        key = self._location.key(path)
        if start < 0 or length <= 0:
            return self._read_nothing(key, start, length, etag)
        options: GetOptions = {"range": (start, start + length)}
        if etag:
            options["if_match"] = quoted_etag(etag)
        data = self._ask(key, lambda: memoryview(obstore.get(self._client, key, options=options).bytes()))
        if len(data) < length:
            raise past_end(key)
        return data

    def fetch(self, file: StoredFile, target: Path, progress: Progress) -> StoredFile:
        seen = file if file.etag and file.size else self.stat(file.path)
        size = seen.size or 0
        if file.etag and seen.etag != file.etag:
            raise source_changed(file.path)
        if size > self._rules.max_file_bytes:
            raise TooLarge(f"{shown(file.path)} has {size} bytes; at most {self._rules.max_file_bytes} are read.")
        with explained(target.parent), unfinished_beside(target) as fetched:
            for start in range(0, size, _FETCHED_AT_ONCE):
                data = self.read(file.path, start, min(_FETCHED_AT_ONCE, size - start), etag=seen.etag)
                write_all(fetched.fd, data)
                progress(len(data))
            fetched.replace(target.name)
        return seen

    def put(self, path: str, source: Path, *, overwrite: bool, progress: Progress) -> StoredFile:
        key = self._location.key(path)
        with opened_source(source.resolve()) as (fd, _):
            upload = Upload(self._client, key, fd, progress)
            etag = self._ask(key, upload.replace if overwrite else upload.create)
        return StoredFile(key, upload.size, etag)

    def delete(self, path: str) -> None:
        key = self._location.key(path)
        try:
            self._ask(key, lambda: obstore.delete(self._client, key))
        except NotFound:
            self._check_container()

    def _listed(self, folder: str, prefix: str) -> builtins.list[StoredFile]:
        found: builtins.list[StoredFile] = []
        for chunk in obstore.list(self._client, folder or None, chunk_size=_LISTED_AT_ONCE):
            found += [_stored(meta["path"], meta) for meta in chunk if meta["path"].startswith(prefix)]
        found.sort(key=lambda file: file.path)
        return found

    def _read_nothing(self, key: str, start: int, length: int, etag: str) -> bytes:
        seen = self.stat(key)
        if start < 0 or length < 0 or start > (seen.size or 0):
            raise past_end(key)
        if etag and etag != seen.etag:
            raise source_changed(key)
        return b""

    def _check_container(self) -> None:
        """Raise NotFound naming the container if the container is missing."""
        if not self._is_container_seen:
            self._ask("", lambda: next(iter(obstore.list(self._client, chunk_size=1)), None))
            self._is_container_seen = True

    def _ask(self, path: str, action: Callable[[], _Answer]) -> _Answer:
        """Call `action`, with retries for `retry_seconds` while the store is unreachable. Raises our errors."""
        end = time.monotonic() + self._rules.retry_seconds
        pause = _FIRST_PAUSE
        while True:
            try:
                return action()
            except FAULTS as error:
                refusal = explain(error, self._location, path)
            # Raised outside the handler: otherwise the traceback would show obstore's text, which may hold secrets.
            if not isinstance(refusal, Unreachable) or time.monotonic() + pause > end:
                raise refusal
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


def _stored(path: str, meta: "ObjectMeta") -> StoredFile:
    return StoredFile(path, meta["size"], bare_etag(meta["e_tag"]), meta["last_modified"])


def _is_folder(path: str, paths: list[str]) -> bool:
    """Whether an empty object is a folder marker. Web consoles create them; obstore strips the slash at the end."""
    after = bisect.bisect_left(paths, f"{path}/")
    return after < len(paths) and paths[after].startswith(f"{path}/")
