import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import AlreadyExistsError

from runyard.datastores.objects.connecting import Client
from runyard.datastores.objects.etags import bare_etag
from runyard.ports.data import Progress

if TYPE_CHECKING:
    from obstore import PutMode

_SMALL_BYTES = 1 << 24
_PART_BYTES = 1 << 23
_PARTS_AT_ONCE = 8
_MOST_PARTS = 9_000
"""The limit of stores is 10,000."""
_WHOLE_BYTES = 1 << 26
"""Largest upload in one request; it is held in memory."""


class Upload:
    """Upload of one open file to one key. The object appears whole.

    `replace` and `create` can be called again after an error; progress counts no byte twice.
    """

    def __init__(self, client: Client, key: str, source: int, progress: Progress) -> None:
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
