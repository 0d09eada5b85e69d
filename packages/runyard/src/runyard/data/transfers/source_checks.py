import hashlib
import re
from collections.abc import Callable, Mapping

from runyard.core.errors import DataFailed, InvalidArgument, SourceChanged
from runyard.core.ports.data import DataStore
from runyard.core.records.data import SourceFile, StoredFile


def store_of(stores: Mapping[str, DataStore], file: SourceFile) -> DataStore:
    """Store that the file is on. Raises InvalidArgument if it is not among `stores`."""
    try:
        return stores[file.store]
    except KeyError:
        problem = f"{file.path!r} lies on the datastore {file.store!r}, which is not known here."
        raise InvalidArgument(problem) from None


def check_same(file: SourceFile, got: StoredFile) -> None:
    """Raise SourceChanged if a fetched file is not the listed version."""
    if file.size is not None and got.size != file.size:
        raise SourceChanged(f"{file.path!r} has {got.size} bytes by now; it had {file.size} when it was listed.")
    if file.etag and got.etag and got.etag != file.etag:
        raise SourceChanged(f"{file.path!r} is another by now than when it was listed.")


_MD5 = re.compile(r'"?([0-9a-fA-F]{32})"?')


class Checksums:
    """Verifies downloads against etags that are an MD5, as object stores have them for single-part uploads.

    Stores that encrypt have etags that look like an MD5 and are none. So if the same bytes come twice, they are
    accepted, and the etags of that store are not checked any more.
    """

    def __init__(self) -> None:
        self._misleading: set[str] = set()

    def expected(self, store_identity: str, etag: str) -> str:
        """Expected MD5 in hexadecimal; empty if none is known."""
        found = _MD5.fullmatch(etag)
        return found[1].lower() if found and store_identity not in self._misleading else ""

    def checked(
        self, store_identity: str, file: SourceFile, read: Callable[[], bytes | memoryview]
    ) -> bytes | memoryview:
        """Whole file as `read` returns it; read twice if the checksum differs. Raises DataFailed, see `judge`."""
        data = read()
        expected = self.expected(store_identity, file.etag)
        if not expected or _md5(data) == expected:
            return data
        again = read()
        self.judge(store_identity, file, _md5(data), _md5(again))
        return again

    def judge(self, store_identity: str, file: SourceFile, first: str, second: str) -> None:
        """Judge two downloads of a file by their MD5s, the first of which was wrong.

        Raises DataFailed if the second is wrong too and differs from the first.
        """
        if second == self.expected(store_identity, file.etag):
            return
        if first != second:
            raise DataFailed(
                f"{file.path!r} came damaged twice: its MD5 is neither {first} nor {second}, but {file.etag}.",
                hint="Look for a proxy or cache that changes what it passes on.",
            )
        self._misleading.add(store_identity)


def _md5(data: bytes | memoryview) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()
