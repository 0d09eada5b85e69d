import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from json import dumps
from pathlib import Path
from typing import Any
from urllib.parse import quote

from runyard.client import (
    Backoff,
    ServiceAddress,
    ServiceClient,
    ServiceUnavailable,
    ServiceUntrusted,
    byte_range,
    decoded,
    quoted,
    retry_while_unavailable,
)
from runyard.core.disk import disk_errors_explained, write_all
from runyard.core.errors import AccessDenied, AlreadyExists, DataFailed, TooLarge, Unauthorized, Unreachable
from runyard.core.ports.data import Progress
from runyard.core.records.data import NetworkRules, StoreAccess, StoredFile
from runyard.data.datastores.local_files import atomic_file_beside
from runyard.data.datastores.paths import check_path, check_prefix, past_end, source_changed
from runyard.storage.blobs.file_copy import open_source_file

_LISTING_PIECE_BYTES = 1 << 18
_THREADS = 8


class ServiceStore:
    """Datastore on the disk of the service, read and written through the service's API.

    `access.options` name the service: by `url` and `ca`, or by a `home` folder that has its service.json.
    """

    def __init__(self, access: StoreAccess, rules: NetworkRules) -> None:
        workspace, _, name = access.root.partition("/")
        options = access.options
        self._root = f"/workspaces/{quote(workspace, safe='')}/datastores/{quote(name, safe='')}"
        self._place = options.get("place") or f"{options.get('url')}/{access.root}"
        self._rules, self._shown = rules, f"Datastore {name!r}, which lies with the service,"
        home, fixed = options.get("home"), ServiceAddress(options.get("url", ""), options.get("ca", ""))
        self._client = ServiceClient(
            Path(home) if home else fixed,
            access.secrets.get("token", ""),
            silence_seconds=rules.silence_seconds,
            translate=self._translated,
        )

    @property
    def identity(self) -> str:
        return f"service:{self._place}"

    @property
    def local_root(self) -> Path | None:
        return None

    @property
    def is_writable(self) -> bool:
        return True

    def list(self, prefix: str = "") -> Iterator[StoredFile]:
        address = f"{self._root}/files?lines=1&prefix={quote(check_prefix(prefix), safe='')}"
        patience, last = self._patience(), ""
        while True:
            try:
                for file in self._listed(address):
                    if file.path > last:  # else yielded before the connection broke
                        last = file.path
                        yield file
                return
            except ServiceUnavailable as failed:
                patience.wait(failed)

    def stat(self, path: str) -> StoredFile:
        address = f"{self._root}/stat/{quoted(check_path(path))}"
        return _stored(retry_while_unavailable(lambda: self._client.get(address), self._patience()))

    def read(self, path: str, start: int, length: int, *, etag: str = "") -> bytes | memoryview:
        path = check_path(path)
        if start < 0 or length < 0:
            raise past_end(path)
        if not length:
            return self._nothing(path, start, etag)
        address, asked = self._content(path, etag), byte_range(start, length)

        def once() -> bytes:
            with self._client.open(address, headers=asked) as answer:
                content = answer.read()
                if answer.status == 416 or (answer.status == 206 and len(content) < length):
                    raise past_end(path)
                return content if answer.status == 206 else content[start : start + length]

        return retry_while_unavailable(once, self._patience())

    def read_many(self, files: Sequence[tuple[str, int, str]]) -> Iterator[tuple[int, memoryview]]:
        body = {"files": [[path, size, etag] for path, size, etag in files]}
        try:
            yield from read_packed(self._client, f"{self._root}/read-many", body)
        except ServiceUnavailable:
            return  # the caller reads the missing files one by one, and gets the error

    def fetch(self, file: StoredFile, target: Path, progress: Progress) -> StoredFile:
        path = check_path(file.path)
        seen = self.stat(path)
        if file.etag not in ("", seen.etag) or (file.etag and file.size not in (None, seen.size)):
            raise source_changed(path)
        download = ServiceDownload(self._client, self._content(path, seen.etag), seen, self._rules, progress)
        download.download_to(target, self._patience())
        return seen

    def put(self, path: str, source: Path, *, overwrite: bool, progress: Progress) -> StoredFile:
        return self._put(check_path(path), source, overwrite, progress, may_be_there=False)

    def put_many(
        self, items: Sequence[tuple[str, Path]], *, overwrite: bool, progress: Progress
    ) -> Sequence[StoredFile]:
        checked = [(check_path(path), source) for path, source in items]
        stored: dict[str, StoredFile] = {}
        may_be_there = False
        for pack in pack_files([(path, source) for path, source in checked if _is_small(source)]):
            try:
                stored |= {file.path: file for file in self._put_pack(pack.content, overwrite)}
                progress(pack.size)
            except ServiceUnavailable:
                may_be_there = True
        rest = [(path, source) for path, source in checked if path not in stored]
        with ThreadPoolExecutor(min(_THREADS, len(rest) or 1), thread_name_prefix="sending") as senders:
            sent = [
                senders.submit(self._put, path, source, overwrite, progress, may_be_there=may_be_there)
                for path, source in rest
            ]
            try:
                stored |= {file.path: file for file in (each.result() for each in sent)}
            except BaseException:
                senders.shutdown(wait=True, cancel_futures=True)
                raise
        return [stored[path] for path, _ in checked]

    def delete(self, path: str) -> None:
        address = f"{self._root}/files/{quoted(check_path(path))}"
        retry_while_unavailable(lambda: self._client.delete(address), self._patience())

    def _put(self, path: str, source: Path, overwrite: bool, progress: Progress, *, may_be_there: bool) -> StoredFile:
        """Store one file. `may_be_there`: an earlier attempt, whose response was lost, may have stored it."""
        address = f"{self._root}/files/{quoted(path)}{'?overwrite=1' if overwrite else ''}"
        upload = ServiceUpload(self._client, address, source, progress)
        try:
            return _stored(upload.send(self._patience()))
        except AlreadyExists:
            is_again = may_be_there or upload.tries > 1
            if is_again and upload.is_same(lambda start, length: self.read(path, start, length)):
                return self.stat(path)
            raise

    def _put_pack(self, content: bytes, overwrite: bool) -> Sequence[StoredFile]:
        """Send one pack. Does not retry."""
        address = f"{self._root}/write-many{'?overwrite=1' if overwrite else ''}"
        with self._client.open(address, "POST", content) as answer:
            return [_stored(row) for row in decoded(answer.read())["files"]]

    def _listed(self, address: str) -> Iterator[StoredFile]:
        with self._client.open(address) as answer:
            rest = b""
            while piece := answer.read(_LISTING_PIECE_BYTES):
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    yield _stored(decoded(line))

    def _patience(self) -> Backoff:
        return Backoff(self._rules.retry_seconds, self._unreachable)

    def _unreachable(self, failed: ServiceUnavailable) -> Exception:
        hint = "Check the address and the proxy settings, or try again later."
        return Unreachable(f"{self._shown} could not be read: {failed}.", hint=hint)

    def _translated(self, error: Exception) -> Exception:
        """Errors of the client as errors of datastores. A wrong certificate or token is not retried."""
        if isinstance(error, ServiceUntrusted):
            return DataFailed(f"{self._shown} cannot be reached: {error}.")
        if isinstance(error, Unauthorized):
            return AccessDenied(error.problem, hint=error.hint)
        return error

    def _nothing(self, path: str, start: int, etag: str) -> bytes:
        seen = self.stat(path)
        if etag not in ("", seen.etag):
            raise source_changed(path)
        if start > (seen.size or 0):
            raise past_end(path)
        return b""

    def _content(self, path: str, etag: str) -> str:
        version = f"?etag={quote(etag, safe='')}" if etag else ""
        return f"{self._root}/files/{quoted(path)}{version}"


def _stored(row: dict[str, Any]) -> StoredFile:
    modified = row.get("modified_at")
    return StoredFile(row["path"], row["size"], row["etag"], datetime.fromisoformat(modified) if modified else None)


def _is_small(source: Path) -> bool:
    try:
        return source.stat().st_size <= SMALL_BYTES
    except (OSError, ValueError):
        return False  # `put` raises the error


_PIECE_BYTES = 1 << 20
_RENEWING_BYTES = 1 << 20
"""Bytes after which a broken transfer counts as progress and resets the retry limit."""


class ServiceDownload:
    """Download of one version of a file through the service. Resumes a broken transfer."""

    def __init__(
        self, client: ServiceClient, address: str, wanted: StoredFile, rules: NetworkRules, progress: Progress
    ) -> None:
        """`address` names the version, so the service refuses any other."""
        self._client, self._address, self._wanted, self._progress = client, address, wanted, progress
        self._size, self._got = wanted.size or 0, 0
        if self._size > rules.max_file_bytes:
            raise TooLarge(f"{wanted.path!r} has {self._size} bytes; {rules.max_file_bytes} are the most.")

    def download_to(self, target: Path, patience: Backoff) -> None:
        """Write the file. After an error, `target` is as it was."""
        with disk_errors_explained(target.parent), atomic_file_beside(target) as new:
            while self._got < self._size:
                before = self._got
                try:
                    self._fetch_rest(new.fd)
                except ServiceUnavailable as failed:
                    if self._got - before >= _RENEWING_BYTES:
                        patience.renew()
                    patience.wait(failed)
            new.replace(target.name)

    def _fetch_rest(self, fd: int) -> None:
        asked = byte_range(self._got) if self._got else {}
        with self._client.open(self._address, headers=asked) as answer:
            if answer.status != (206 if asked else 200):
                raise source_changed(self._wanted.path)
            while piece := answer.read(_PIECE_BYTES):
                write_all(fd, piece)
                self._got += len(piece)
                self._progress(len(piece))
        if self._got < self._size:
            raise ServiceUnavailable(f"the transfer ended after {self._got} of {self._size} bytes")


class ServiceUpload:
    """Upload of a local file through the service. A retry sends the whole file; progress counts no byte twice."""

    def __init__(self, client: ServiceClient, address: str, source: Path, progress: Progress) -> None:
        self._client, self._address, self._source, self._progress = client, address, source, progress
        self._reported = 0
        self.tries = 0

    def send(self, patience: Backoff) -> dict[str, Any]:
        with open_source_file(_followed(self._source)) as (opened, facts):

            def once() -> dict[str, Any]:
                self.tries += 1
                length = {"Content-Length": str(facts.st_size)}
                pieces = self._pieces(opened, facts.st_size)
                with self._client.open(self._address, "PUT", pieces, length) as answer:
                    return decoded(answer.read())

            return retry_while_unavailable(once, patience)

    def is_same(self, read: Callable[[int, int], bytes | memoryview]) -> bool:
        """Whether `read` returns the bytes of this file."""
        with open_source_file(_followed(self._source)) as (opened, facts):
            for start in range(0, facts.st_size, _PIECE_BYTES):
                mine = os.pread(opened, _PIECE_BYTES, start)
                if bytes(read(start, len(mine))) != mine:
                    return False
        return True

    def _pieces(self, opened: int, size: int) -> Iterator[bytes]:
        """Exactly `size` bytes, even if the file grows. Raises SourceChanged if it shrinks."""
        sent = 0
        while sent < size and (piece := os.pread(opened, min(_PIECE_BYTES, size - sent), sent)):
            yield piece
            sent += len(piece)
            if sent > self._reported:
                self._progress(sent - self._reported)
                self._reported = sent
        if sent < size:
            raise source_changed(str(self._source))


def _followed(source: Path) -> Path:
    return source.resolve() if source.is_symlink() else source


SMALL_BYTES = 1 << 20
_PACK_BYTES, _PACK_FILES = 8 << 20, 500


@dataclass(frozen=True)
class FilePack:
    """Many small files in the body of one request: a request for each would cost more than its bytes."""

    content: bytes
    size: int
    """Bytes of the files, without the headers between them."""


def pack_files(items: Sequence[tuple[str, Path]]) -> Iterator[FilePack]:
    """Read the files into packs."""
    parts: list[bytes] = []
    size = files = 0
    for path, source in items:
        content = _content(source)
        if files and (size + len(content) > _PACK_BYTES or files >= _PACK_FILES):
            yield FilePack(b"".join(parts), size)
            parts, size, files = [], 0, 0
        parts += [f"{quote(path, safe='/')} {len(content)}\n".encode(), content]
        size, files = size + len(content), files + 1
    if files:
        yield FilePack(b"".join(parts), size)


def read_packed(client: ServiceClient, address: str, body: dict[str, Any]) -> Iterator[tuple[int, memoryview]]:
    """Yield (number, content) for each file of the response as it arrives. Does not retry."""
    with client.open(address, "POST", dumps(body).encode()) as answer:
        waiting = bytearray()
        while piece := answer.read(_PIECE_BYTES):
            waiting += piece
            begin = 0
            while (end := waiting.find(b"\n", begin)) >= 0:
                number, size = _head(waiting[begin:end])
                if len(waiting) < end + 1 + size:
                    break
                yield number, memoryview(bytes(waiting[end + 1 : end + 1 + size]))
                begin = end + 1 + size
            del waiting[:begin]


def _head(line: bytearray) -> tuple[int, int]:
    number, _, size = line.partition(b" ")
    try:
        return int(number), int(size)
    except ValueError as problem:
        raise ServiceUnavailable(f"the service answered what is no pack of files: {bytes(line[:300])!r}") from problem


def _content(source: Path) -> bytes:
    with (
        open_source_file(source.resolve() if source.is_symlink() else source) as (opened, _),
        open(opened, "rb", closefd=False) as file,
    ):
        return file.read()
