import os
from pathlib import Path

from runyard.node.beneath import open_beneath, stat_beneath

_PROOF_BYTES = 64


class GrowingFile:
    """A file that is read as it grows, from where the reader stopped last.

    `was_rewritten` turns true, for good, when the file is no longer the one whose start was read.
    """

    def __init__(self, path: Path, root: Path | None = None) -> None:
        """`root` is the folder that it must lie in, wherever links lead: its own unless another is given."""
        self.path, self._root = path, root or path.parent
        self.offset = 0
        self.was_rewritten = False
        self._proof = b""
        self._inode = 0

    def size(self) -> int:
        try:
            return stat_beneath(self.path, self._root).st_size
        except OSError:
            return 0

    def has_more(self) -> bool:
        return not self.was_rewritten and self.size() != self.offset

    def read(self, most: int) -> bytes:
        """The next bytes, b"" when there are none. Does not move on: see `advance`."""
        try:
            fd = open_beneath(self.path, self._root)
        except OSError:  # gone, or closed to us by the script
            return b""
        try:
            return self._read_checked(fd, most)
        except OSError:
            return b""
        finally:
            os.close(fd)

    def advance(self, piece: bytes) -> None:
        """`piece`, which `read` gave (or its beginning), is delivered."""
        self.offset += len(piece)
        self._proof = (self._proof + piece)[-_PROOF_BYTES:]

    def resume(self, offset: int) -> None:
        """Go on from what somebody else is known to have delivered."""
        self.offset, self._proof = offset, b""

    def _read_checked(self, fd: int, most: int) -> bytes:
        found = os.fstat(fd)
        self._inode = self._inode or found.st_ino
        kept = os.pread(fd, len(self._proof), self.offset - len(self._proof))
        if found.st_size < self.offset or found.st_ino != self._inode or kept != self._proof:
            self.was_rewritten = True
            return b""
        return os.pread(fd, most, self.offset)


class GrowingFiles:
    """Growing files by name, and which of them may hold more than was read."""

    def __init__(self) -> None:
        self._files: dict[str, GrowingFile] = {}
        self._changed: dict[str, None] = {}

    def changed(self, name: str, path: Path, root: Path | None = None) -> None:
        if name not in self._files:
            self._files[name] = GrowingFile(path, root)
        if not self._files[name].was_rewritten:
            self._changed[name] = None

    def settled(self, name: str) -> None:
        """There is nothing more to read now."""
        self._changed.pop(name, None)

    def find(self, name: str) -> GrowingFile | None:
        return self._files.get(name)

    def all(self) -> list[tuple[str, GrowingFile]]:
        return list(self._files.items())

    def unsettled(self) -> list[tuple[str, GrowingFile]]:
        return [(name, self._files[name]) for name in self._changed]

    @property
    def pending(self) -> bool:
        return bool(self._changed)

    def marks(self) -> dict[str, int]:
        """How far each reaches now; see `reached`."""
        return {name: self._files[name].size() for name in self._changed}

    def reached(self, marks: dict[str, int]) -> bool:
        """Whether all that was there when the marks were taken has been read."""
        return all(name not in self._changed or self._files[name].offset >= mark for name, mark in marks.items())
