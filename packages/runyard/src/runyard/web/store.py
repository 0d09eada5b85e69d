from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from runyard.errors import InvalidArgument
from runyard.model.data import NetworkRules, StoredFile
from runyard.ports.data import Progress
from runyard.web.addresses import MAX_CHARACTERS, UNSENDABLE, Address, parse_address
from runyard.web.client import Client
from runyard.web.parts import read_once, stat_once
from runyard.web.pipelining import Pipeline, Wish
from runyard.web.transfer import Transfer


class WebStore:
    """Read-only datastore of http(s) addresses: a path is a URL, or relative to `base`.

    Connections are kept and shared by threads; a forked child makes its own.
    """

    def __init__(self, rules: NetworkRules, base: str = "") -> None:
        self._rules = rules
        self._base = _checked_base(base) if base else ""
        self._client = Client(rules)
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
                requests.append(Wish(number, self._address(path), size, etag))
        return self._pipeline.read([request for request in requests if request.size > 0])

    def fetch(self, file: StoredFile, target: Path, progress: Progress) -> StoredFile:
        return Transfer(self._client, self._rules, self._address(file.path), file, progress).download_to(target)

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
