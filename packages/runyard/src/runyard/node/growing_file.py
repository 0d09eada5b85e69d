import os
from dataclasses import dataclass
from pathlib import Path

_PROOF_BYTES = 64


@dataclass
class GrowingFile:
    """A file that is read as it grows, from where the reader stopped last.

    `was_rewritten` turns true, for good, when the file is no longer the one whose start was read.
    """

    path: Path
    offset: int = 0
    was_rewritten: bool = False
    _proof: bytes = b""
    _inode: int = 0

    def has_more(self) -> bool:
        try:
            return not self.was_rewritten and os.stat(self.path).st_size != self.offset
        except OSError:
            return False

    def read(self, most: int) -> bytes:
        """The next bytes, b"" when there are none. Does not move on: see `advance`."""
        try:
            with self.path.open("rb") as file:
                return self._read_checked(file.fileno(), most)
        except FileNotFoundError:
            return b""

    def advance(self, piece: bytes) -> None:
        """`piece`, which `read` gave (or its beginning), is delivered."""
        self.offset += len(piece)
        self._proof = (self._proof + piece)[-_PROOF_BYTES:]

    def _read_checked(self, fd: int, most: int) -> bytes:
        found = os.fstat(fd)
        self._inode = self._inode or found.st_ino
        kept = os.pread(fd, len(self._proof), self.offset - len(self._proof))
        if found.st_size < self.offset or found.st_ino != self._inode or kept != self._proof:
            self.was_rewritten = True
            return b""
        return os.pread(fd, most, self.offset)
