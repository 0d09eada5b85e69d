import hashlib
import re
from collections.abc import Callable

from runyard.errors import DataFailed
from runyard.model.data import SourceFile

_MD5 = re.compile(r'"?([0-9a-fA-F]{32})"?')


class Checksums:
    """Compares what came with etags that look like an MD5, as object stores give for files put in one piece.

    Encrypting stores give etags of that look which are none. So bytes that come twice alike are believed, and the
    store's etags are not taken for MD5s after that.
    """

    def __init__(self) -> None:
        self._misleading: set[str] = set()

    def expected(self, store_identity: str, etag: str) -> str:
        """The MD5 that the file must have, in hexadecimal; empty where none is known."""
        found = _MD5.fullmatch(etag)
        return found[1].lower() if found and store_identity not in self._misleading else ""

    def checked(
        self, store_identity: str, file: SourceFile, read: Callable[[], bytes | memoryview]
    ) -> bytes | memoryview:
        """The whole file as `read` gives it, asked a second time when its checksum is not the expected one."""
        data = read()
        expected = self.expected(store_identity, file.etag)
        if not expected or _md5(data) == expected:
            return data
        again = read()
        self.judge(store_identity, file, _md5(data), _md5(again))
        return again

    def judge(self, store_identity: str, file: SourceFile, first: str, second: str) -> None:
        """Two MD5s of the same file, the first of them not the expected one. Raises DataFailed unless the second
        is right."""
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
