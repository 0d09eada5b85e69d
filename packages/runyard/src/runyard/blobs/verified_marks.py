import os

_MOST_KEPT = 200_000
_Mark = tuple[int, int, int]


class VerifiedMarks:
    """Blobs that this process has hashed or written, with the inode, size and mtime of that time. Safe among threads.

    Only a cache: a forgotten blob is hashed again.
    """

    def __init__(self) -> None:
        self._marks: dict[str, _Mark] = {}
        self._damaged: set[str] = set()

    def note(self, sha256: str, facts: os.stat_result) -> None:
        if len(self._marks) >= _MOST_KEPT:
            self._marks.clear()
        self._marks[sha256] = _mark(facts)
        self._damaged.discard(sha256)

    def note_touched(self, sha256: str, mtime_ns: int) -> None:
        """Store the new mtime of a known file. If the disk has coarser times, the file is hashed again."""
        if mark := self._marks.get(sha256):
            self._marks[sha256] = (*mark[:2], mtime_ns)

    def note_damaged(self, sha256: str) -> None:
        self._marks.pop(sha256, None)
        self._damaged.add(sha256)

    def forget(self, sha256: str) -> None:
        """Remove a blob whose file was deleted."""
        self._marks.pop(sha256, None)
        self._damaged.discard(sha256)

    def is_damaged(self, sha256: str) -> bool:
        return sha256 in self._damaged

    def is_known(self, sha256: str, file: os.stat_result | str) -> bool:
        """True if the file is unchanged since its content was verified. Raises FileNotFoundError."""
        mark = self._marks.get(sha256)
        if mark is None:
            return False
        return mark == _mark(os.stat(file) if isinstance(file, str) else file)


def _mark(facts: os.stat_result) -> _Mark:
    return facts.st_ino, facts.st_size, facts.st_mtime_ns
