import threading

_MOST_FILES = 64
_SPARE_BYTES = 32 << 20


class Foresight:
    """Decides how many of the files that follow a wanted one are worth fetching with it.

    What was fetched and never wanted stays below what was wanted, and a little: who reads all of a dataset, in any
    order, finds most of it fetched; who reads a few files here and there hardly pays for the others.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._unused: dict[bytes, tuple[int, int | None]] = {}
        self._unused_bytes = self._wanted_bytes = 0
        self._width = 1

    def next_count(self) -> int:
        """How many files after a wanted one: twice as many each time, as long as it pays."""
        with self._guard:
            if self._unused_bytes <= self._wanted_bytes + _SPARE_BYTES:
                self._width = min(2 * self._width, _MOST_FILES)
            else:
                self._width = max(1, self._width // 2)
            return self._width - 1

    def fetches(self, name: bytes, size: int, next_place: int | None) -> None:
        """A file is fetched that nobody wants yet. Once it is wanted, so are those from `next_place` on."""
        with self._guard:
            self._unused[name] = size, next_place
            self._unused_bytes += size

    def failed(self, name: bytes) -> None:
        """A file that nobody wants yet could not be fetched with others."""
        size, _ = self._unused.pop(name, (0, None))
        with self._guard:
            self._unused_bytes -= size
            self._width = 1

    def missed(self, name: bytes, size: int) -> None:
        """A file is wanted that is not here. Had it been fetched before, that was in vain."""
        self._unused.pop(name, None)
        with self._guard:
            self._wanted_bytes += size

    def used(self, name: bytes) -> int | None:
        """A file is read that is here; tells the place from which on to fetch more, if it is time for it."""
        size, next_place = self._unused.pop(name, (0, None))
        if size:
            with self._guard:
                self._wanted_bytes += size
                self._unused_bytes -= size
        return next_place
