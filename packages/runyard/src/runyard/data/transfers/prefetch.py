import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import NamedTuple

from runyard.core.ports.data import BatchReader, DataStore
from runyard.core.records.data import SourceFile
from runyard.data.transfers.fetches import BlockFetch, BlockFetches, CachedSource

SMALL_BYTES = 256 << 10
_MOST_FILES = 64
_MOST_BYTES = 2 << 20
_SCANNED_PER_FILE = 4
_THREADS = 8
_NEAR_SECONDS = 0.02
"""Below this response time one thread is enough: more threads would only wait for each other."""


class _FetchRequest(NamedTuple):
    position: int
    """Position in the file order after which files may be prefetched."""
    fetch: BlockFetch | None


class FileOrder:
    """Small files in the order in which they are likely to be read: the order of their dataset."""

    def __init__(self, make_source: Callable[[SourceFile], CachedSource]) -> None:
        self._make_source = make_source
        self._files: list[SourceFile] = []
        self._sources: list[CachedSource | None] = []
        self._positions: dict[str, dict[str, int]] = {}

    def add(self, files: Sequence[SourceFile]) -> None:
        for store in {file.store for file in files}:
            self._positions.setdefault(store, {})
        for position, file in enumerate(files, len(self._files)):
            self._positions[file.store][file.key] = position
        self._files += files
        self._sources += [None] * len(files)

    def position_of(self, file: SourceFile) -> int | None:
        position = self._positions.get(file.store, {}).get(file.key)
        return position if position is not None and self._files[position] is file else None

    def source(self, position: int) -> CachedSource:
        source = self._sources[position]
        if source is None:
            source = self._sources[position] = self._make_source(self._files[position])
        return source

    def following(self, position: int, most: int) -> Iterator[tuple[int, CachedSource]]:
        """Yield up to `most` sources from `position` on, each with the position after it."""
        for here in range(position, min(position + most, len(self._files))):
            yield here + 1, self.source(here)


class BatchFetcher:
    """Fetches small files in batches: those that a reader waits for, and some that follow them in the file order.

    One request per small file would cost more than its bytes. A few threads send requests for all that is wanted.
    """

    def __init__(self, fetches: BlockFetches, stores: Mapping[str, DataStore], order: FileOrder) -> None:
        self._fetches, self._order = fetches, order
        self._suited = {name for name, store in stores.items() if isinstance(store, BatchReader)}
        self._prefetcher = Prefetcher()
        self._requests: deque[_FetchRequest] = deque()
        self._pool = ThreadPoolExecutor(_THREADS, "data-batch")
        self._guard = threading.Lock()
        self._threads = 0

    def is_suited(self, file: SourceFile) -> bool:
        return file.store in self._suited and file.is_ranged and 0 < (file.size or 0) <= SMALL_BYTES

    def want(self, position: int, source: CachedSource) -> None:
        """Start to fetch a file that is neither cached nor being fetched."""
        self._prefetcher.note_miss(source.name, source.size)
        fetch = self._fetches.begin(source)
        if fetch is not None:
            self._enqueue(_FetchRequest(position + 1, fetch))

    def note_use(self, source: CachedSource) -> None:
        """Note the read of a file that is cached or being fetched; prefetch more if it is time."""
        position = self._prefetcher.note_hit(source.name)
        if position is not None:
            self._enqueue(_FetchRequest(position, None))

    def close(self) -> None:
        self._pool.shutdown(wait=True)

    def _enqueue(self, request: _FetchRequest) -> None:
        self._requests.append(request)
        self._start_thread()

    def _start_thread(self) -> None:
        with self._guard:
            if self._threads >= (_THREADS if self._fetches.seconds > _NEAR_SECONDS else 1):
                return
            self._threads += 1
        try:
            self._pool.submit(self._work)
        except RuntimeError:  # the pool was closed meanwhile
            self._work()

    def _work(self) -> None:
        try:
            while batch := self._next_batch():
                self._fetch(batch)
        finally:
            with self._guard:
                self._threads -= 1
        if self._requests:  # queued while this thread was still counted
            self._start_thread()

    def _next_batch(self) -> list[BlockFetch]:
        """The next batch: all requested files, then files that follow each of them, as far as there is room."""
        requests: list[_FetchRequest] = []
        batch: list[BlockFetch] = []
        room = _MOST_BYTES
        while self._requests and len(requests) < _MOST_FILES and room > 0:
            try:
                requests.append(self._requests.popleft())
            except IndexError:  # another thread was quicker
                break
            fetch = requests[-1].fetch
            if fetch is not None:
                batch.append(fetch)
                room -= fetch.source.size
        count = self._prefetcher.next_count() if requests else 0
        for request in requests:
            more = self._following(request.position, min(count, _MOST_FILES - len(batch)), room)
            room -= sum(fetch.source.size for fetch in more)
            batch += more
        return batch

    def _following(self, position: int, count: int, room: int) -> Sequence[BlockFetch]:
        """Start to prefetch up to `count` files from `position` on. Reading the first of them triggers more."""
        found: list[BlockFetch] = []
        next_position = position
        for after, source in self._order.following(position, _SCANNED_PER_FILE * count):
            is_wanted = self.is_suited(source.file) and not self._fetches.is_known(source)
            if is_wanted and (len(found) == count or room < source.size):
                break
            next_position = after
            fetch = self._fetches.begin(source) if is_wanted else None
            if fetch is not None:
                found.append(fetch)
                room -= source.size
        for fetch in found:
            is_first = fetch is found[0]
            self._prefetcher.note_prefetch(fetch.source.name, fetch.source.size, next_position if is_first else None)
        return found

    def _fetch(self, batch: Sequence[BlockFetch]) -> None:
        began_at = time.monotonic()
        first_seconds = 0.0
        waiting = dict.fromkeys(batch)
        try:
            for fetch, data in _read(batch):
                first_seconds = first_seconds or time.monotonic() - began_at
                del waiting[fetch]
                self._fetches.end(fetch, data)
        finally:
            for fetch in waiting:
                self._prefetcher.note_failure(fetch.source.name)
                self._fetches.end(fetch, None)
            self._fetches.keep_all(batch, first_seconds)


def _read(batch: Sequence[BlockFetch]) -> Iterator[tuple[BlockFetch, memoryview]]:
    for _, group in groupby(batch, key=lambda fetch: fetch.source.file.store):
        some = list(group)
        store = some[0].source.store
        assert isinstance(store, BatchReader)
        wanted = [(one.source.file.key, one.source.size, one.source.file.etag) for one in some]
        for number, data in store.read_many(wanted):
            yield some[number], data


_WIDEST = 64
_SPARE_BYTES = 32 << 20


class Prefetcher:
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
                self._width = min(2 * self._width, _WIDEST)
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
