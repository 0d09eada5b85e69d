import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

from runyard.core.errors import DataFailed
from runyard.core.ports.data import DataStore
from runyard.core.records.data import SourceFile
from runyard.data.transfers.block_cache import BlockCache, cache_name
from runyard.data.transfers.segments import Block, BlockKey
from runyard.data.transfers.source_checks import Checksums

BLOCK_BYTES = 1 << 20
AT_ONCE_BYTES = 4 << 20
_BLOCKS_AT_ONCE = AT_ONCE_BYTES // BLOCK_BYTES
_NEAR_AHEAD_BYTES = 16 << 20
_FAR_AHEAD_BYTES = 64 << 20
_FAR_SECONDS = 0.1


class CachedSource(NamedTuple):
    """File of a store, with its name in the cache."""

    file: SourceFile
    size: int
    store: DataStore
    name: bytes
    first: BlockKey
    """Key of its first block."""

    @classmethod
    def of(cls, file: SourceFile, size: int, store: DataStore) -> "CachedSource":
        name = cache_name(store.identity, file)
        return cls(file, size, store, name, BlockKey(name, 0))

    def key(self, index: int) -> BlockKey:
        return BlockKey(self.name, index)

    def block_size(self, index: int) -> int:
        return min(BLOCK_BYTES, self.size - index * BLOCK_BYTES)


class BlockFetch:
    """Fetch of a few neighbouring blocks, running or just ended."""

    __slots__ = ("_data", "count", "error", "first", "has_ended", "is_ahead", "lock", "source")

    def __init__(self, source: CachedSource, first: int, count: int, *, is_ahead: bool) -> None:
        self.source, self.first, self.count, self.is_ahead = source, first, count, is_ahead
        self.lock = threading.Lock()
        """Held by the thread that runs the fetch; the others wait for it."""
        self.has_ended = False
        self.error: BaseException | None = None
        self._data = memoryview(b"")

    def run(self, checksums: Checksums) -> None:
        """Read the bytes, verified if they are the whole file. Stores an exception in `error` for all who wait."""
        file, store = self.source.file, self.source.store
        start = self.first * BLOCK_BYTES
        length = min(self.count * BLOCK_BYTES, self.source.size - start)
        read = partial(store.read, file.key, start, length, etag=file.etag)
        try:
            is_whole = length == self.source.size
            self._data = memoryview(checksums.checked(store.identity, file, read) if is_whole else read())
        except BaseException as error:
            self.error = error

    def set_data(self, data: memoryview, checksums: Checksums) -> None:
        """Set the bytes of a whole file that came in a batch."""
        file, store = self.source.file, self.source.store
        first = iter((data,))

        def read() -> bytes | memoryview:
            return next(first, None) or store.read(file.key, 0, self.source.size, etag=file.etag)

        try:
            self._data = memoryview(checksums.checked(store.identity, file, read))
        except BaseException as error:
            self.error = error

    @property
    def is_here(self) -> bool:
        return self.has_ended and self.error is None

    @property
    def keys(self) -> Sequence[BlockKey]:
        if self.first == 0 and self.count == 1:
            return (self.source.first,)
        return [self.source.key(index) for index in range(self.first, self.first + self.count)]

    @property
    def size(self) -> int:
        return len(self._data)

    def block(self, index: int) -> memoryview:
        if self.count == 1:
            return self._data
        start = (index - self.first) * BLOCK_BYTES
        return self._data[start : start + BLOCK_BYTES]

    def blocks(self) -> Sequence[Block]:
        is_shared = bool(self.source.file.etag)
        return [Block(key, self.block(key.block), is_shared) for key in self.keys]


class BlockFetches:
    """Fetches each block once, however many threads want it. Keeps the latest blocks in memory for a while."""

    def __init__(self, cache: BlockCache, threads: int, checksums: Checksums) -> None:
        self._cache, self._checksums = cache, checksums
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads, "data-ahead")
        self._guard = threading.Lock()
        self._known: dict[BlockKey, BlockFetch] = {}
        self._remembered: deque[BlockFetch] = deque()
        self._remembered_bytes = 0
        self._running = 0
        self._seconds = 0.0
        self.fetched_bytes = 0

    @property
    def ahead_bytes(self) -> int:
        """How far to read ahead. A slow store needs many requests at once; with a fast one, more than a few only evict
        each other from the CPU caches."""
        return _FAR_AHEAD_BYTES if self._seconds > _FAR_SECONDS else _NEAR_AHEAD_BYTES

    @property
    def seconds(self) -> float:
        """Moving average of the response time of the stores."""
        return self._seconds

    def is_known(self, source: CachedSource) -> bool:
        """Whether its first block is cached or being fetched."""
        return source.first in self._known or self._cache.has(source.first)

    def find(self, key: BlockKey) -> BlockFetch | None:
        return self._known.get(key)

    def claim(self, source: CachedSource, blocks: range, *, is_ahead: bool = False) -> BlockFetch:
        """Return the fetch of the first of these blocks: a running one, or a new one of it and the blocks after it."""
        first, known = blocks.start, self._known
        with self._guard:
            if (found := known.get(source.key(first))) is not None:
                return found
            count = 1
            while count < min(len(blocks), _BLOCKS_AT_ONCE) and source.key(first + count) not in known:
                count += 1
            fetch = BlockFetch(source, first, count, is_ahead=is_ahead)
            known.update(dict.fromkeys(fetch.keys, fetch))
            return fetch

    def start_all(self, source: CachedSource, blocks: range) -> None:
        """Start to fetch the missing blocks in parallel. The first fetch is left to the caller."""
        rest = blocks
        while rest:
            count = self._absent(source, rest)
            if count:
                fetch = self.claim(source, rest[:count])
                if rest.start > blocks.start:
                    self._start(fetch)
            rest = rest[max(count, 1) :]

    def start_ahead(self, source: CachedSource, blocks: range) -> None:
        """Start to fetch blocks that will be read soon, unless too many fetches are running."""
        while blocks and self._running < 2 * self._threads:
            count = self._absent(source, blocks)
            if count:
                self._start(self.claim(source, blocks[:count], is_ahead=True))
            blocks = blocks[max(count, 1) :]

    def begin(self, source: CachedSource) -> BlockFetch | None:
        """Begin a fetch of a one-block file; the caller must `end` it. None if one is known already."""
        fetch = BlockFetch(source, 0, 1, is_ahead=True)
        fetch.lock.acquire()
        with self._guard:
            return fetch if self._known.setdefault(source.first, fetch) is fetch else None

    def end(self, fetch: BlockFetch, data: memoryview | None) -> None:
        """Finish a fetch started by `begin`. If `data` is None, waiting readers fetch the file themselves."""
        if data is None:
            fetch.error = DataFailed("It did not come with others.")
        else:
            fetch.set_data(data, self._checksums)
        if fetch.error is not None:
            with self._guard:
                self._drop(fetch)
        fetch.has_ended = True
        fetch.lock.release()

    def keep_all(self, fetches: Sequence[BlockFetch], first_seconds: float) -> None:
        """Cache the fetches that ended well; `first_seconds` is how long the first took."""
        here = [fetch for fetch in fetches if fetch.is_here]
        self._cache.keep_all([block for fetch in here for block in fetch.blocks()])
        with self._guard:
            if here:
                self._seconds += (first_seconds - self._seconds) / 8
            for fetch in here:
                self.fetched_bytes += fetch.size
                self._remember(fetch)

    def finish(self, fetch: BlockFetch) -> None:
        """Wait for the fetch to end; run it here if no other thread does."""
        with fetch.lock:
            is_ours = not fetch.has_ended
            if is_ours:
                self._run(fetch)
        if is_ours and fetch.error is None:
            self._keep(fetch)

    def forget(self, source: CachedSource) -> None:
        for index in range(-(-source.size // BLOCK_BYTES)):
            with self._guard:
                self._known.pop(source.key(index), None)
            self._cache.forget(source.key(index))

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _absent(self, source: CachedSource, blocks: range) -> int:
        """How many blocks, from the first on, are neither cached nor being fetched."""
        count = 0
        for index in blocks[:_BLOCKS_AT_ONCE]:
            if source.key(index) in self._known or self._cache.has(source.key(index)):
                break
            count += 1
        return count

    def _start(self, fetch: BlockFetch) -> None:
        with self._guard:
            self._running += 1
        try:
            self._pool.submit(self._run_in_pool, fetch)
        except RuntimeError:  # the pool was closed meanwhile
            self._run_in_pool(fetch)

    def _run_in_pool(self, fetch: BlockFetch) -> None:
        try:
            self.finish(fetch)
        finally:
            with self._guard:
                self._running -= 1

    def _run(self, fetch: BlockFetch) -> None:
        began_at = time.monotonic()
        fetch.run(self._checksums)
        with self._guard:
            self._seconds += (time.monotonic() - began_at - self._seconds) / 8
            if fetch.error is None:
                self.fetched_bytes += fetch.size
                self._remember(fetch)
            else:
                self._drop(fetch)
            fetch.has_ended = True

    def _keep(self, fetch: BlockFetch) -> None:
        self._cache.keep_all(fetch.blocks())

    def _remember(self, fetch: BlockFetch) -> None:
        self._remembered.append(fetch)
        self._remembered_bytes += fetch.size
        while self._remembered_bytes > 2 * self.ahead_bytes and len(self._remembered) > 1:
            oldest = self._remembered.popleft()
            self._remembered_bytes -= oldest.size
            self._drop(oldest)

    def _drop(self, fetch: BlockFetch) -> None:
        for key in fetch.keys:
            if self._known.get(key) is fetch:
                del self._known[key]
