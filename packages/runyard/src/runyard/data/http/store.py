from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

from runyard.core.disk import is_disk_full
from runyard.core.durable_files import replacement
from runyard.core.errors import DataFailed, InvalidArgument, StorageFull
from runyard.core.ports.data import Progress
from runyard.core.records.data import NetworkRules, StoredFile
from runyard.data.http.addresses import MAX_CHARACTERS, UNSENDABLE, Address, parse_address
from runyard.data.http.client import HttpClient, HttpResponse
from runyard.data.http.pipeline import FileRequest, Pipeline
from runyard.data.http.ranges import read_once, stat_once
from runyard.data.http.responses import (
    DECODED,
    ContentRange,
    decoded,
    pieces,
    source_changed,
    status_error,
    too_large,
    unknown_encoding,
)
from runyard.data.http.retries import HttpBackoff, TransientError


class WebStore:
    """Read-only datastore of http(s) addresses: a path is a URL, or relative to `base`.

    Connections are kept and shared by threads; a forked child makes its own.
    """

    def __init__(self, rules: NetworkRules, base: str = "") -> None:
        self._rules = rules
        self._base = _checked_base(base) if base else ""
        self._client = HttpClient(rules)
        self._pipeline = Pipeline(rules)

    @property
    def identity(self) -> str:
        return f"web:{self._base}"

    @property
    def local_root(self) -> Path | None:
        return None

    @property
    def is_writable(self) -> bool:
        return False

    def list(self, prefix: str = "") -> Iterator[StoredFile]:
        if self._base:
            raise InvalidArgument(
                f"The files below {self._base} cannot be listed: web datastores have no listing.",
                hint="Name each file by its whole path, without '*'.",
            )
        return iter([self.stat(prefix)])

    def stat(self, path: str) -> StoredFile:
        address = self._address(path)
        return self._client.patiently(address, lambda: stat_once(self._client, path, address))

    def read(self, path: str, start: int, length: int, *, etag: str = "") -> memoryview:
        address = self._address(path)
        if start < 0 or length < 0:
            raise InvalidArgument(f"A part has a start and a length of 0 or more, got {start} and {length}.")
        if not length:
            return memoryview(b"")
        return self._client.patiently(address, lambda: read_once(self._client, address, start, length, etag))

    def read_many(self, files: Sequence[tuple[str, int, str]]) -> Iterator[tuple[int, memoryview]]:
        requests = []
        for number, (path, size, etag) in enumerate(files):
            with suppress(InvalidArgument):
                requests.append(FileRequest(number, self._address(path), size, etag))
        return self._pipeline.read([request for request in requests if request.size > 0])

    def fetch(self, file: StoredFile, target: Path, progress: Progress) -> StoredFile:
        return WebDownload(self._client, self._rules, self._address(file.path), file, progress).download_to(target)

    def put(self, path: str, source: Path, *, overwrite: bool, progress: Progress) -> StoredFile:
        raise _read_only(self._address(path))

    def delete(self, path: str) -> None:
        raise _read_only(self._address(path))

    def close(self) -> None:
        """Close the kept connections. The store can be used afterwards."""
        self._client.close()
        self._pipeline.close()

    def _address(self, path: str) -> Address:
        if not self._base:
            return parse_address(path)
        is_below = path and not UNSENDABLE.search(path) and not {"", ".", ".."} & set(path.split("/"))
        if not is_below or len(path) > MAX_CHARACTERS:
            raise InvalidArgument(
                f"{path[:200]!r} is no path of a file below {self._base}.",
                hint="Give a relative path with '/' between its parts, without '..'.",
            )
        return parse_address(self._base + quote(path))


def _checked_base(base: str) -> str:
    address = parse_address(base)
    if "?" in base or "#" in base:
        raise InvalidArgument(f"The address of a web datastore takes no '?' or '#', got one after {address.shown}.")
    return f"{address.scheme}://{address.authority}{address.path.rstrip('/')}/"


def _read_only(address: Address) -> InvalidArgument:
    return InvalidArgument(
        f"{address.shown} cannot be written: web addresses can only be read.",
        hint="Write to a datastore of another kind.",
    )


RENEWING_BYTES = 1024 * 1024
"""Bytes after which a broken transfer counts as progress and resets the retry limit."""


class WebDownload:
    """Download of one whole file. Resumes a broken transfer if the server supports ranges."""

    def __init__(
        self, client: HttpClient, rules: NetworkRules, address: Address, wanted: StoredFile, progress: Progress
    ) -> None:
        self._client, self._rules, self._address, self._wanted = client, rules, address, wanted
        self._progress, self._reported = progress, 0
        self._got, self._version, self._validator = 0, "", ""
        self._size: int | None = None

    def download_to(self, target: Path) -> StoredFile:
        """Write the file. After an error, `target` is as it was."""
        try:
            with replacement(target) as fd, open(fd, "wb", closefd=False) as file:
                return self._patiently(file)
        except OSError as error:
            kind = StorageFull if is_disk_full(error) else DataFailed
            raise kind(
                f"{self._address.shown} could not be written to {target.parent}: {error.strerror or error}.",
                hint="Make room there, or choose another folder.",
            ) from error

    def _patiently(self, file: BinaryIO) -> StoredFile:
        patience = HttpBackoff(self._address.shown, self._rules)
        while True:
            before = self._got
            try:
                return self._once(file)
            except TransientError as failure:
                if self._got - before >= RENEWING_BYTES:
                    patience.renew()
                patience.wait(failure)

    def _once(self, file: BinaryIO) -> StoredFile:
        resumes = self._got and self._validator
        headers = [("Range", f"bytes={self._got}-"), ("If-Range", self._validator)] if resumes else []
        with self._client.ask("GET", self._address, headers) as answer:
            head = answer.head
            size = self._begin(file, answer)
            if not head.foreign_encoding(self._address.path):
                self._size = self._wanted.size if size is None else size
            for piece in self._pieces(answer, size):
                self._take(file, piece)
            self._check_end(answer)
            return StoredFile(self._wanted.path, self._got, self._version, head.modified_at, self._wanted.is_ranged)

    def _begin(self, file: BinaryIO, answer: HttpResponse) -> int | None:
        """Find out whether the response resumes or restarts the file. Returns the size of the whole file, if known."""
        head, part = answer.head, answer.head.content_range
        is_encoded = bool(head.foreign_encoding(self._address.path))
        if head.status == 206 and part and not is_encoded and self._resumes(answer, part):
            return part.size
        if head.status in (206, 416) and self._got:
            self._restart(file)
            raise TransientError("the server does not go on where the transfer broke")
        if head.status != 200:
            raise status_error(self._address, head)
        self._restart(file)
        size = None if is_encoded else head.length
        self._version, self._validator = head.version(size), "" if is_encoded else head.validator
        self._check(size)
        return size

    def _resumes(self, answer: HttpResponse, part: ContentRange) -> bool:
        is_rest = 0 < self._got == part.start and part.end == part.size
        return is_rest and answer.head.version(part.size) == self._version

    def _check(self, size: int | None) -> None:
        wanted = self._wanted
        if size is not None and size > self._rules.max_file_bytes:
            raise too_large(self._address, self._rules.max_file_bytes)
        if (wanted.etag and wanted.etag != self._version) or (None not in (wanted.size, size) and wanted.size != size):
            raise source_changed(self._address)

    def _check_end(self, answer: HttpResponse) -> None:
        if self._size is None or self._got == self._size:
            return
        if answer.body.is_finished:
            raise source_changed(self._address)
        raise TransientError(f"the transfer ended after {self._got} of {self._size} bytes")

    def _most_without_length(self) -> int:
        return min(self._rules.max_untold_bytes, self._rules.max_file_bytes)

    def _restart(self, file: BinaryIO) -> None:
        file.seek(0)
        file.truncate()
        self._got, self._validator, self._size = 0, "", None

    def _pieces(self, answer: HttpResponse, size: int | None) -> Iterator[memoryview]:
        encoding = answer.head.foreign_encoding(self._address.path)
        if not encoding:
            return pieces(answer.body, size)
        if encoding not in DECODED:
            raise unknown_encoding(self._address, encoding)
        return decoded(answer.body)

    def _take(self, file: BinaryIO, piece: memoryview) -> None:
        got = self._got + len(piece)
        if self._size is not None and got > self._size:
            raise source_changed(self._address)
        limit = self._rules.max_file_bytes if self._size is not None else self._most_without_length()
        if got > limit:
            raise too_large(self._address, limit)
        file.write(piece)
        self._got += len(piece)
        if self._got > self._reported:
            self._progress(self._got - self._reported)
            self._reported = self._got
