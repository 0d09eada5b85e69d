import os
from pathlib import Path

from runyard.node.beneath import open_beneath, stat_beneath

_COMPARED_BYTES = 64


class GrowingFile:
    """Reads a file as it grows, from the last offset.

    `was_rewritten` turns true, for good, when the file was replaced, truncated or changed before the offset.
    """

    def __init__(self, path: Path, root: Path | None = None) -> None:
        """`root`: the folder that the file must lie in after following links; its own by default."""
        self.path, self._root = path, root or path.parent
        self.offset = 0
        self.was_rewritten = False
        self._last_bytes = b""
        self._inode = 0

    def size(self) -> int:
        try:
            return stat_beneath(self.path, self._root).st_size
        except OSError:
            return 0

    def has_more(self) -> bool:
        return not self.was_rewritten and self.size() != self.offset

    def read(self, most: int) -> bytes:
        """Return the next bytes, b"" when there are none. The offset stays: see `advance`."""
        try:
            fd = open_beneath(self.path, self._root)
        except OSError:  # deleted, or made unreadable by the script
            return b""
        try:
            return self._read_checked(fd, most)
        except OSError:
            return b""
        finally:
            os.close(fd)

    def advance(self, piece: bytes) -> None:
        """Move the offset past `piece`, which `read` returned, or its beginning: it was sent."""
        self.offset += len(piece)
        self._last_bytes = (self._last_bytes + piece)[-_COMPARED_BYTES:]

    def resume(self, offset: int) -> None:
        """Continue at an offset that an earlier reader reached."""
        self.offset, self._last_bytes = offset, b""

    def _read_checked(self, fd: int, most: int) -> bytes:
        found = os.fstat(fd)
        self._inode = self._inode or found.st_ino
        kept = os.pread(fd, len(self._last_bytes), self.offset - len(self._last_bytes))
        if found.st_size < self.offset or found.st_ino != self._inode or kept != self._last_bytes:
            self.was_rewritten = True
            return b""
        return os.pread(fd, most, self.offset)


class GrowingFiles:
    """Growing files by name, with those that may have unread bytes."""

    def __init__(self) -> None:
        self._files: dict[str, GrowingFile] = {}
        self._changed: dict[str, None] = {}

    def changed(self, name: str, path: Path, root: Path | None = None) -> None:
        if name not in self._files:
            self._files[name] = GrowingFile(path, root)
        if not self._files[name].was_rewritten:
            self._changed[name] = None

    def settled(self, name: str) -> None:
        """Mark a file as read to its end."""
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
        """Current sizes of files with unread bytes; see `reached`."""
        return {name: self._files[name].size() for name in self._changed}

    def reached(self, marks: dict[str, int]) -> bool:
        """Tell whether everything that `marks` counted has been read."""
        return all(name not in self._changed or self._files[name].offset >= mark for name, mark in marks.items())
