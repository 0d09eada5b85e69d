from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from json import loads
from pathlib import Path
from typing import Any
from urllib.parse import quote

from runyard.datastores.paths import check_path, check_prefix
from runyard.datastores.refusals import past_end, source_changed
from runyard.datastores.service.asking import Asking
from runyard.datastores.service.packs import SMALL_BYTES, packs_of, unpacked
from runyard.datastores.service.transfer import Arrival, Departure
from runyard.errors import AlreadyExists
from runyard.model.data import NetworkRules, StoreAccess, StoredFile
from runyard.ports.data import Progress
from runyard.service_address import ServiceAddress, address_in
from runyard.web.troubles import Broken

_PIECE_BYTES = 1 << 18
_THREADS = 8


class ServiceStore:
    """A datastore on the service's own disk, read and written through the service.

    `access.options` say where the service is: its `url` and `ca`, or a `home` whose service.json does.
    """

    def __init__(self, access: StoreAccess, rules: NetworkRules) -> None:
        workspace, _, name = access.root.partition("/")
        options = access.options
        self._root = f"/workspaces/{quote(workspace, safe='')}/datastores/{quote(name, safe='')}"
        self._place = options.get("place") or f"{options.get('url')}/{access.root}"
        self._rules = rules

        def where() -> ServiceAddress:
            if options.get("home"):
                return address_in(Path(options["home"]))
            return ServiceAddress(options.get("url", ""), options.get("ca", ""))

        token = access.secrets.get("token", "")
        self._asking = Asking(where, token, rules, f"Datastore {name!r}, which lies with the service,")

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
        patience, last = self._asking.patience(), ""
        while True:
            try:
                for file in self._listed(address):
                    if file.path > last:  # else told already, before the connection broke
                        last = file.path
                        yield file
                return
            except Broken as trouble:
                patience.wait(trouble)

    def stat(self, path: str) -> StoredFile:
        return _stored(self._asking.ask("GET", f"{self._root}/stat/{_quoted(check_path(path))}"))

    def read(self, path: str, start: int, length: int, *, etag: str = "") -> bytes | memoryview:
        path = check_path(path)
        if start < 0 or length < 0:
            raise past_end(path)
        if not length:
            return self._nothing(path, start, etag)
        address, asked = self._content(path, etag), {"Range": f"bytes={start}-{start + length - 1}"}

        def once() -> bytes:
            with self._asking.answer("GET", address, headers=asked) as answer:
                content = answer.read()
                if answer.status == 416 or (answer.status == 206 and len(content) < length):
                    raise past_end(path)
                return content if answer.status == 206 else content[start : start + length]

        return self._asking.patiently(once)

    def read_many(self, files: Sequence[tuple[str, int, str]]) -> Iterator[tuple[int, memoryview]]:
        body = {"files": [[path, size, etag] for path, size, etag in files]}
        try:
            yield from unpacked(self._asking, f"{self._root}/read-many", body)
        except Broken:
            return  # those that did not come are read alone, which tells what is wrong

    def fetch(self, file: StoredFile, target: Path, progress: Progress) -> StoredFile:
        path = check_path(file.path)
        seen = self.stat(path)
        if file.etag not in ("", seen.etag) or (file.etag and file.size not in (None, seen.size)):
            raise source_changed(path)
        Arrival(self._asking, self._content(path, seen.etag), seen, self._rules, progress).into(target)
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
            except Broken:
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
        self._asking.ask("DELETE", f"{self._root}/files/{_quoted(check_path(path))}")

    def _put(self, path: str, source: Path, overwrite: bool, progress: Progress, *, may_be_there: bool) -> StoredFile:
        """`may_be_there`: an earlier try, whose answer was lost, may have stored it."""
        address = f"{self._root}/files/{_quoted(path)}{'?overwrite=1' if overwrite else ''}"
        departure = Departure(self._asking, address, source, progress)
        try:
            return _stored(departure.sent())
        except AlreadyExists:
            is_again = may_be_there or departure.tries > 1
            if is_again and departure.is_same(lambda start, length: self.read(path, start, length)):
                return self.stat(path)
            raise

    def _put_pack(self, content: bytes, overwrite: bool) -> Sequence[StoredFile]:
        """One try."""
        address = f"{self._root}/write-many{'?overwrite=1' if overwrite else ''}"
        with self._asking.answer("POST", address, content) as answer:
            return [_stored(row) for row in loads(answer.read())["files"]]

    def _listed(self, address: str) -> Iterator[StoredFile]:
        with self._asking.answer("GET", address) as answer:
            rest = b""
            while piece := answer.read(_PIECE_BYTES):
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    yield _stored(loads(line))

    def _nothing(self, path: str, start: int, etag: str) -> bytes:
        seen = self.stat(path)
        if etag not in ("", seen.etag):
            raise source_changed(path)
        if start > (seen.size or 0):
            raise past_end(path)
        return b""

    def _content(self, path: str, etag: str) -> str:
        version = f"?etag={quote(etag, safe='')}" if etag else ""
        return f"{self._root}/files/{_quoted(path)}{version}"


def _quoted(path: str) -> str:
    return quote(path, safe="/")


def _stored(row: dict[str, Any]) -> StoredFile:
    modified = row.get("modified_at")
    return StoredFile(row["path"], row["size"], row["etag"], datetime.fromisoformat(modified) if modified else None)


def _is_small(source: Path) -> bool:
    try:
        return source.stat().st_size <= SMALL_BYTES
    except (OSError, ValueError):
        return False  # `put` says what is wrong with it
