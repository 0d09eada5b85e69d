import threading

_MOST_FILES = 64
_SPARE_BYTES = 32 << 20


class Foresight:
    """Decides how many of the files that follow a read one to prefetch.

    Bytes prefetched in vain stay below the bytes read, plus a fixed allowance. So a reader of a whole dataset, in any
    order, finds most files prefetched, and a reader of a few files costs little extra.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._unused: dict[bytes, tuple[int, int | None]] = {}
        self._unused_bytes = self._wanted_bytes = 0
        self._width = 1

    def next_count(self) -> int:
        """How many files to prefetch now: twice as many each time, as long as they are used."""
        with self._guard:
            if self._unused_bytes <= self._wanted_bytes + _SPARE_BYTES:
                self._width = min(2 * self._width, _MOST_FILES)
            else:
                self._width = max(1, self._width // 2)
            return self._width - 1

    def note_prefetch(self, name: bytes, size: int, next_position: int | None) -> None:
        """Note a prefetch. When the file is read, `note_hit` returns its `next_position`."""
        with self._guard:
            self._unused[name] = size, next_position
            self._unused_bytes += size

    def note_failure(self, name: bytes) -> None:
        """Note that a prefetch failed."""
        size, _ = self._unused.pop(name, (0, None))
        with self._guard:
            self._unused_bytes -= size
            self._width = 1

    def note_miss(self, name: bytes, size: int) -> None:
        """Note the read of a file that is not cached. An earlier prefetch of it was in vain."""
        self._unused.pop(name, None)
        with self._guard:
            self._wanted_bytes += size

    def note_hit(self, name: bytes) -> int | None:
        """Note the read of a cached file. Returns the position to prefetch from, if it is time to."""
        size, next_position = self._unused.pop(name, (0, None))
        if size:
            with self._guard:
                self._wanted_bytes += size
                self._unused_bytes -= size
        return next_position
