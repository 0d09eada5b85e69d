import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import NamedTuple

from runyard.model.data import SourceFile
from runyard.ports.data import DataStore, ReadsMany
from runyard.transfers.fetches import Fetch, Fetches, Source
from runyard.transfers.file_order import FileOrder
from runyard.transfers.foresight import Foresight

SMALL_BYTES = 256 << 10
_MOST_FILES = 64
_MOST_BYTES = 2 << 20
_SCANNED_PER_FILE = 4
_THREADS = 8
_NEAR_SECONDS = 0.02
"""Below this response time one thread is enough: more threads would only wait for each other."""


class _Wish(NamedTuple):
    position: int
    """Position in the file order after which files may be prefetched."""
    fetch: Fetch | None


class Batches:
    """Fetches small files in batches: those that a reader waits for, and some that follow them in the file order.

    One request per small file would cost more than its bytes. A few threads send requests for all that is wanted.
    """

    def __init__(self, fetches: Fetches, stores: Mapping[str, DataStore], order: FileOrder) -> None:
        self._fetches, self._order = fetches, order
        self._suited = {name for name, store in stores.items() if isinstance(store, ReadsMany)}
        self._prefetcher = Foresight()
        self._requests: deque[_Wish] = deque()
        self._pool = ThreadPoolExecutor(_THREADS, "data-batch")
        self._guard = threading.Lock()
        self._threads = 0

    def is_suited(self, file: SourceFile) -> bool:
        return file.store in self._suited and file.is_ranged and 0 < (file.size or 0) <= SMALL_BYTES

    def want(self, position: int, source: Source) -> None:
        """Start to fetch a file that is neither cached nor being fetched."""
        self._prefetcher.note_miss(source.name, source.size)
        fetch = self._fetches.begin(source)
        if fetch is not None:
            self._enqueue(_Wish(position + 1, fetch))

    def note_use(self, source: Source) -> None:
        """Note the read of a file that is cached or being fetched; prefetch more if it is time."""
        position = self._prefetcher.note_hit(source.name)
        if position is not None:
            self._enqueue(_Wish(position, None))

    def close(self) -> None:
        self._pool.shutdown(wait=True)

    def _enqueue(self, request: _Wish) -> None:
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

    def _next_batch(self) -> list[Fetch]:
        """The next batch: all requested files, then files that follow each of them, as far as there is room."""
        requests: list[_Wish] = []
        batch: list[Fetch] = []
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

    def _following(self, position: int, count: int, room: int) -> Sequence[Fetch]:
        """Start to prefetch up to `count` files from `position` on. Reading the first of them triggers more."""
        found: list[Fetch] = []
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

    def _fetch(self, batch: Sequence[Fetch]) -> None:
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


def _read(batch: Sequence[Fetch]) -> Iterator[tuple[Fetch, memoryview]]:
    for _, group in groupby(batch, key=lambda fetch: fetch.source.file.store):
        some = list(group)
        store = some[0].source.store
        assert isinstance(store, ReadsMany)
        wanted = [(one.source.file.key, one.source.size, one.source.file.etag) for one in some]
        for number, data in store.read_many(wanted):
            yield some[number], data
