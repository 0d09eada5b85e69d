import errno
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from runyard.errors import DataFailed, StorageFull
from runyard.model.data import NetworkRules, StoredFile
from runyard.ports.data import Progress
from runyard.web.addresses import Address
from runyard.web.answers import ContentRange
from runyard.web.bodies import DECODED, decoded, pieces
from runyard.web.client import Answer, Client
from runyard.web.refusals import encoded, refusal, source_changed, too_large
from runyard.web.troubles import Broken, Patience

RENEWING_BYTES = 1024 * 1024
"""An attempt that moved so many bytes before it broke resets the retry limit."""


class Transfer:
    """Download of one whole file. Resumes a broken transfer if the server supports ranges."""

    def __init__(
        self, client: Client, rules: NetworkRules, address: Address, wanted: StoredFile, progress: Progress
    ) -> None:
        self._client, self._rules, self._address, self._wanted = client, rules, address, wanted
        self._progress, self._reported = progress, 0
        self._got, self._version, self._validator = 0, "", ""
        self._size: int | None = None

    def download_to(self, target: Path) -> StoredFile:
        """Write the file. After an error, `target` is as it was."""
        beside = target.with_name(f".{secrets.token_hex(8)}.partial")
        try:
            try:
                with beside.open("xb") as file:
                    got = self._patiently(file)
                os.replace(beside, target)
                return got
            finally:
                beside.unlink(missing_ok=True)
        except OSError as error:
            kind = StorageFull if error.errno in (errno.ENOSPC, errno.EDQUOT) else DataFailed
            raise kind(
                f"{self._address.shown} could not be written to {target.parent}: {error.strerror or error}.",
                hint="Make room there, or choose another folder.",
            ) from error

    def _patiently(self, file: BinaryIO) -> StoredFile:
        patience = Patience(self._address.shown, self._rules)
        while True:
            before = self._got
            try:
                return self._once(file)
            except Broken as trouble:
                if self._got - before >= RENEWING_BYTES:
                    patience.renew()
                patience.wait(trouble)

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

    def _begin(self, file: BinaryIO, answer: Answer) -> int | None:
        """Find out whether the response resumes or restarts the file. Returns the size of the whole file, if known."""
        head, part = answer.head, answer.head.content_range
        is_encoded = bool(head.foreign_encoding(self._address.path))
        if head.status == 206 and part and not is_encoded and self._resumes(answer, part):
            return part.size
        if head.status in (206, 416) and self._got:
            self._restart(file)
            raise Broken("the server does not go on where the transfer broke")
        if head.status != 200:
            raise refusal(self._address, head)
        self._restart(file)
        size = None if is_encoded else head.length
        self._version, self._validator = head.version(size), "" if is_encoded else head.validator
        self._check(size)
        return size

    def _resumes(self, answer: Answer, part: ContentRange) -> bool:
        is_rest = 0 < self._got == part.start and part.end == part.size
        return is_rest and answer.head.version(part.size) == self._version

    def _check(self, size: int | None) -> None:
        wanted = self._wanted
        if size is not None and size > self._rules.max_file_bytes:
            raise too_large(self._address, self._rules.max_file_bytes)
        if (wanted.etag and wanted.etag != self._version) or (None not in (wanted.size, size) and wanted.size != size):
            raise source_changed(self._address)

    def _check_end(self, answer: Answer) -> None:
        if self._size is None or self._got == self._size:
            return
        if answer.body.is_finished:
            raise source_changed(self._address)
        raise Broken(f"the transfer ended after {self._got} of {self._size} bytes")

    def _most_without_length(self) -> int:
        return min(self._rules.max_untold_bytes, self._rules.max_file_bytes)

    def _restart(self, file: BinaryIO) -> None:
        file.seek(0)
        file.truncate()
        self._got, self._validator, self._size = 0, "", None

    def _pieces(self, answer: Answer, size: int | None) -> Iterator[memoryview]:
        encoding = answer.head.foreign_encoding(self._address.path)
        if not encoding:
            return pieces(answer.body, size)
        if encoding not in DECODED:
            raise encoded(self._address, encoding)
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
