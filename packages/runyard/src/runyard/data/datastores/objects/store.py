import bisect
import builtins
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import obstore
from obstore.exceptions import AlreadyExistsError

from runyard.core.disk import disk_errors_explained, write_all
from runyard.core.errors import NotFound, TooLarge, Unreachable
from runyard.core.names import quoted_text
from runyard.core.ports.data import Progress
from runyard.core.records.data import NetworkRules, StoreAccess, StoredFile
from runyard.data.datastores.local_files import atomic_file_beside
from runyard.data.datastores.objects.connection import ObstoreClient, connect
from runyard.data.datastores.objects.error_translation import OBSTORE_ERRORS, translate_error
from runyard.data.datastores.paths import check_prefix, past_end, source_changed
from runyard.storage.blobs.file_copy import open_source_file

if TYPE_CHECKING:
    from obstore import GetOptions, ObjectMeta, PutMode


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
            raise TooLarge(f"{quoted_text(file.path)} has {size} bytes; at most {self._rules.max_file_bytes} are read.")
        with disk_errors_explained(target.parent), atomic_file_beside(target) as fetched:
            for start in range(0, size, _FETCHED_AT_ONCE):
                data = self.read(file.path, start, min(_FETCHED_AT_ONCE, size - start), etag=seen.etag)
                write_all(fetched.fd, data)
                progress(len(data))
            fetched.replace(target.name)
        return seen

    def put(self, path: str, source: Path, *, overwrite: bool, progress: Progress) -> StoredFile:
        key = self._location.key(path)
        with open_source_file(source.resolve()) as (fd, _):
            upload = ObjectUpload(self._client, key, fd, progress)
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
            except OBSTORE_ERRORS as error:
                refusal = translate_error(error, self._location, path)
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


_SMALL_BYTES = 1 << 24
_PART_BYTES = 1 << 23
_PARTS_AT_ONCE = 8
_MOST_PARTS = 9_000
"""The limit of stores is 10,000."""
_WHOLE_BYTES = 1 << 26
"""Largest upload in one request; it is held in memory."""


class ObjectUpload:
    """Upload of one open file to one key. The object appears whole.

    `replace` and `create` can be called again after an error; progress counts no byte twice.
    """

    def __init__(self, client: ObstoreClient, key: str, source: int, progress: Progress) -> None:
        self._client, self._key, self._source = client, key, source
        self._progress, self._reported = progress, 0
        self._is_repeated = False
        self.size = 0

    def replace(self) -> str:
        """Store the object, in place of any older one. Returns its etag."""
        size = os.fstat(self._source).st_size
        if size <= _SMALL_BYTES:
            return self._put_whole("overwrite")
        part_bytes = max(_PART_BYTES, -(-size // _MOST_PARTS))
        answer = obstore.put(
            self._client,
            self._key,
            self._parts(part_bytes),
            use_multipart=True,
            chunk_size=part_bytes,
            max_concurrency=_PARTS_AT_ONCE,
        )
        return bare_etag(answer["e_tag"])

    def create(self) -> str:
        """Store the object and return its etag. Raises AlreadyExistsError if the key is taken.

        Of two writers at once one wins. Only files above 64 MiB, which go in parts, are checked first and then written:
        there the later writer wins.
        """
        if os.fstat(self._source).st_size > _WHOLE_BYTES:
            self._check_absent()
            return self.replace()
        try:
            return self._put_whole("create")
        except AlreadyExistsError as error:
            etag = self._etag_if_same() if self._is_repeated or _was_repeated(error) else ""
            if not etag:
                raise
            return etag  # stored by the attempt before, whose response was lost
        finally:
            self._is_repeated = True

    def _put_whole(self, mode: "PutMode") -> str:
        data = b"".join(self._pieces(_PART_BYTES))
        answer = obstore.put(self._client, self._key, data, mode=mode, use_multipart=False)
        self._report(self.size)
        return bare_etag(answer["e_tag"])

    def _parts(self, part_bytes: int) -> Iterator[bytes]:
        for piece in self._pieces(part_bytes):
            yield piece
            self._report(self.size)

    def _pieces(self, piece_bytes: int) -> Iterator[bytes]:
        self.size = 0
        while piece := os.pread(self._source, piece_bytes, self.size):
            self.size += len(piece)
            yield piece

    def _report(self, sent: int) -> None:
        if sent > self._reported:
            self._progress(sent - self._reported)
            self._reported = sent

    def _check_absent(self) -> None:
        try:
            obstore.head(self._client, self._key)
        except FileNotFoundError:
            return
        raise AlreadyExistsError(self._key)

    def _etag_if_same(self) -> str:
        """Etag of the stored object if it has the same bytes as the source, else empty."""
        there = obstore.get(self._client, self._key)
        same = bytes(there.bytes()) == b"".join(self._pieces(_PART_BYTES))
        return bare_etag(there.meta["e_tag"]) if same else ""


def _was_repeated(error: AlreadyExistsError) -> bool:
    """Whether obstore retried the request."""
    return re.search(r"\bretries: [1-9]", str(error)) is not None


def bare_etag(etag: str | None) -> str:
    """Etag without quotes. Some stores list etags without quotes and return them with quotes."""
    return (etag or "").strip('"')


def quoted_etag(etag: str) -> str:
    """Etag as the header If-Match needs it."""
    return etag if etag.startswith("W/") else f'"{etag}"'
