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
_LOOKED_AT_EACH = 4
_THREADS = 8
_NEAR_SECONDS = 0.02
"""A store that answers so soon keeps one thread busy; more would only wait for each other."""


class _Wish(NamedTuple):
    place: int
    """From where on files follow that may be wanted too."""
    fetch: Fetch | None


class Batches:
    """Small files fetched many at a time: those that somebody waits for, and some that follow them.

    A request for each, by whoever wants it, costs more than its bytes: here a few threads ask for all that is wanted.
    """

    def __init__(self, fetches: Fetches, stores: Mapping[str, DataStore], order: FileOrder) -> None:
        self._fetches, self._order = fetches, order
        self._suited = {name for name, store in stores.items() if isinstance(store, ReadsMany)}
        self._foresight = Foresight()
        self._wishes: deque[_Wish] = deque()
        self._pool = ThreadPoolExecutor(_THREADS, "data-batch")
        self._guard = threading.Lock()
        self._threads = 0

    def is_suited(self, file: SourceFile) -> bool:
        return file.store in self._suited and file.is_ranged and 0 < (file.size or 0) <= SMALL_BYTES

    def want(self, place: int, source: Source) -> None:
        """Begin to fetch a file that is neither here nor on its way."""
        self._foresight.missed(source.name, source.size)
        fetch = self._fetches.begin(source)
        if fetch is not None:
            self._enqueue(_Wish(place + 1, fetch))

    def note_use(self, source: Source) -> None:
        """A file is read that is here, or on its way."""
        place = self._foresight.used(source.name)
        if place is not None:
            self._enqueue(_Wish(place, None))

    def close(self) -> None:
        self._pool.shutdown(wait=True)

    def _enqueue(self, wish: _Wish) -> None:
        self._wishes.append(wish)
        self._start_thread()

    def _start_thread(self) -> None:
        with self._guard:
            if self._threads >= (_THREADS if self._fetches.seconds > _NEAR_SECONDS else 1):
                return
            self._threads += 1
        try:
            self._pool.submit(self._work)
        except RuntimeError:  # closed meanwhile
            self._work()

    def _work(self) -> None:
        try:
            while batch := self._gathered():
                self._bring(batch)
        finally:
            with self._guard:
                self._threads -= 1
        if self._wishes:  # it came while this thread was still counted
            self._start_thread()

    def _gathered(self) -> list[Fetch]:
        """All that is wanted now, and after that what follows each of them, as far as there is room."""
        wishes: list[_Wish] = []
        batch: list[Fetch] = []
        room = _MOST_BYTES
        while self._wishes and len(wishes) < _MOST_FILES and room > 0:
            try:
                wishes.append(self._wishes.popleft())
            except IndexError:  # another thread was quicker
                break
            fetch = wishes[-1].fetch
            if fetch is not None:
                batch.append(fetch)
                room -= fetch.source.size
        count = self._foresight.next_count() if wishes else 0
        for wish in wishes:
            more = self._following(wish.place, min(count, _MOST_FILES - len(batch)), room)
            room -= sum(fetch.source.size for fetch in more)
            batch += more
        return batch

    def _following(self, place: int, count: int, room: int) -> Sequence[Fetch]:
        """As many as may come along of the files from that place on. Use of the first of them brings more."""
        found: list[Fetch] = []
        next_place = place
        for after, source in self._order.following(place, _LOOKED_AT_EACH * count):
            is_wanted = self.is_suited(source.file) and not self._fetches.is_known(source)
            if is_wanted and (len(found) == count or room < source.size):
                break
            next_place = after
            fetch = self._fetches.begin(source) if is_wanted else None
            if fetch is not None:
                found.append(fetch)
                room -= source.size
        for fetch in found:
            is_first = fetch is found[0]
            self._foresight.fetches(fetch.source.name, fetch.source.size, next_place if is_first else None)
        return found

    def _bring(self, batch: Sequence[Fetch]) -> None:
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
                self._foresight.failed(fetch.source.name)
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
