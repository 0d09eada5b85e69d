from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from runyard.client import (
    Patience,
    ServiceAddress,
    ServiceAway,
    ServiceClient,
    ServiceUntrusted,
    byte_range,
    decoded,
    patiently,
    quoted,
)
from runyard.datastores.paths import check_path, check_prefix
from runyard.datastores.refusals import past_end, source_changed
from runyard.datastores.service.packs import SMALL_BYTES, packs_of, unpacked
from runyard.datastores.service.transfer import Arrival, Departure
from runyard.errors import AccessDenied, AlreadyExists, DataFailed, Unauthorized, Unreachable
from runyard.model.data import NetworkRules, StoreAccess, StoredFile
from runyard.ports.data import Progress

_PIECE_BYTES = 1 << 18
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
            except ServiceAway as failed:
                patience.wait(failed)

    def stat(self, path: str) -> StoredFile:
        address = f"{self._root}/stat/{quoted(check_path(path))}"
        return _stored(patiently(lambda: self._client.get(address), self._patience()))

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

        return patiently(once, self._patience())

    def read_many(self, files: Sequence[tuple[str, int, str]]) -> Iterator[tuple[int, memoryview]]:
        body = {"files": [[path, size, etag] for path, size, etag in files]}
        try:
            yield from unpacked(self._client, f"{self._root}/read-many", body)
        except ServiceAway:
            return  # the caller reads the missing files one by one, and gets the error

    def fetch(self, file: StoredFile, target: Path, progress: Progress) -> StoredFile:
        path = check_path(file.path)
        seen = self.stat(path)
        if file.etag not in ("", seen.etag) or (file.etag and file.size not in (None, seen.size)):
            raise source_changed(path)
        download = Arrival(self._client, self._content(path, seen.etag), seen, self._rules, progress)
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
        for pack in packs_of([(path, source) for path, source in checked if _is_small(source)]):
            try:
                stored |= {file.path: file for file in self._put_pack(pack.content, overwrite)}
                progress(pack.size)
            except ServiceAway:
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
        patiently(lambda: self._client.delete(address), self._patience())

    def _put(self, path: str, source: Path, overwrite: bool, progress: Progress, *, may_be_there: bool) -> StoredFile:
        """Store one file. `may_be_there`: an earlier attempt, whose response was lost, may have stored it."""
        address = f"{self._root}/files/{quoted(path)}{'?overwrite=1' if overwrite else ''}"
        upload = Departure(self._client, address, source, progress)
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
            while piece := answer.read(_PIECE_BYTES):
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    yield _stored(decoded(line))

    def _patience(self) -> Patience:
        return Patience(self._rules.retry_seconds, self._unreachable)

    def _unreachable(self, failed: ServiceAway) -> Exception:
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
