import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from runyard.blobs.disk import explained
from runyard.blobs.sources import opened_source
from runyard.client import Patience, ServiceAway, ServiceClient, byte_range, decoded, patiently
from runyard.datastores.refusals import source_changed
from runyard.datastores.unfinished import unfinished_beside
from runyard.errors import TooLarge
from runyard.model.data import NetworkRules, StoredFile
from runyard.ports.data import Progress

_PIECE_BYTES = 1 << 20
_RENEWING_BYTES = 1 << 20
"""An attempt that moved so many bytes before it broke resets the retry limit."""


class Arrival:
    """Download of one version of a file through the service. Resumes a broken transfer."""

    def __init__(
        self, client: ServiceClient, address: str, wanted: StoredFile, rules: NetworkRules, progress: Progress
    ) -> None:
        """`address` names the version, so the service refuses any other."""
        self._client, self._address, self._wanted, self._progress = client, address, wanted, progress
        self._size, self._got = wanted.size or 0, 0
        if self._size > rules.max_file_bytes:
            raise TooLarge(f"{wanted.path!r} has {self._size} bytes; {rules.max_file_bytes} are the most.")

    def download_to(self, target: Path, patience: Patience) -> None:
        """Write the file. After an error, `target` is as it was."""
        with explained(target.parent), unfinished_beside(target) as new:
            while self._got < self._size:
                before = self._got
                try:
                    self._fetch_rest(new.fd)
                except ServiceAway as failed:
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
                _write_all(fd, piece)
                self._got += len(piece)
                self._progress(len(piece))
        if self._got < self._size:
            raise ServiceAway(f"the transfer ended after {self._got} of {self._size} bytes")


class Departure:
    """Upload of a local file through the service. A retry sends the whole file; progress counts no byte twice."""

    def __init__(self, client: ServiceClient, address: str, source: Path, progress: Progress) -> None:
        self._client, self._address, self._source, self._progress = client, address, source, progress
        self._reported = 0
        self.tries = 0

    def send(self, patience: Patience) -> dict[str, Any]:
        with opened_source(_followed(self._source)) as (opened, facts):

            def once() -> dict[str, Any]:
                self.tries += 1
                length = {"Content-Length": str(facts.st_size)}
                pieces = self._pieces(opened, facts.st_size)
                with self._client.open(self._address, "PUT", pieces, length) as answer:
                    return decoded(answer.read())

            return patiently(once, patience)

    def is_same(self, read: Callable[[int, int], bytes | memoryview]) -> bool:
        """Whether `read` returns the bytes of this file."""
        with opened_source(_followed(self._source)) as (opened, facts):
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


def _write_all(fd: int, piece: bytes) -> None:
    view = memoryview(piece)
    while view:
        view = view[os.write(fd, view) :]
