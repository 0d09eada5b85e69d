import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from runyard.core.errors import InvalidArgument
from runyard.core.ports.data import DataStore
from runyard.core.records.data import SourceFile
from runyard.data.transfers.block_cache import BlockCache
from runyard.data.transfers.fetches import AT_ONCE_BYTES, BLOCK_BYTES, BlockFetch, BlockFetches, CachedSource
from runyard.data.transfers.prefetch import BatchFetcher, FileOrder
from runyard.data.transfers.source_checks import Checksums, store_of
from runyard.data.transfers.whole_files import WholeFiles


class Reader:
    """Reads parts of files of stores through the cache, from any number of threads.

    Sequential reads get read-ahead; random reads fetch only the blocks they touch. Files of local stores are read in
    place. `fetched_bytes` and `cached_bytes` count the bytes from stores and from the cache.
    """

    def __init__(
        self,
        cache: BlockCache,
        stores: Mapping[str, DataStore],
        *,
        threads: int = 16,
        checksums: Checksums | None = None,
        before_waiting: Callable[[], None] = lambda: None,
    ) -> None:
        """`before_waiting` is called in the reading thread before it waits for a store."""
        self._cache, self._stores, self._before_waiting = cache, stores, before_waiting
        self._fetches = BlockFetches(cache, threads, checksums or Checksums())
        self._order = FileOrder(self._source_of)
        self._batches = BatchFetcher(self._fetches, stores, self._order)
        self._sequences = SequentialReads()
        self._whole = WholeFiles(cache)
        self._counting = threading.Lock()
        self.cached_bytes = 0

    @property
    def fetched_bytes(self) -> int:
        return self._fetches.fetched_bytes + self._whole.fetched_bytes

    def follow(self, files: Sequence[SourceFile]) -> None:
        """Announce files that will probably be read in this order: the small ones among them are prefetched."""
        self._order.add(files)

    def read(self, file: SourceFile, start: int, length: int) -> Sequence[memoryview]:
        """Read a part of the file, up to its end, as a sequence of pieces.

        Raises the errors of the store: SourceChanged if the file is not the version of `file`, Unreachable, NotFound,
        AccessDenied. A later read tries again.
        """
        if start < 0 or length < 0:
            raise InvalidArgument(f"start and length must not be negative, got {start} and {length}.")
        store = store_of(self._stores, file)
        if file.size is None or not (file.is_ranged or store.local_root):
            self._before_waiting()
            return self._read_whole(file, store, start, length)
        end = min(start + length, file.size)
        if start >= end:
            return ()
        if store.local_root is not None:
            self._before_waiting()
            return (memoryview(store.read(file.key, start, end - start, etag=file.etag)),)
        if self._batches.is_suited(file) and (position := self._order.position_of(file)) is not None:
            return (self._read_small(position, start, end),)
        return self._read_blocks(CachedSource.of(file, file.size, store), start, end)

    def size(self, file: SourceFile) -> int:
        """Size in bytes. A file of unknown size is fetched for that, and cached."""
        return self._whole.size(file, store_of(self._stores, file)) if file.size is None else file.size

    def forget(self, file: SourceFile) -> None:
        """Fetch the file again on the next read."""
        if file.size is not None:
            self._fetches.forget(self._source_of(file))

    def close(self) -> None:
        """Wait for running fetches, and let other processes use what was cached."""
        self._batches.close()
        self._fetches.close()
        self._whole.close()
        self._cache.close()

    def _source_of(self, file: SourceFile) -> CachedSource:
        return CachedSource.of(file, file.size or 0, store_of(self._stores, file))

    def _read_blocks(self, source: CachedSource, start: int, end: int) -> Sequence[memoryview]:
        indexes = range(start // BLOCK_BYTES, -(-end // BLOCK_BYTES))
        if len(indexes) > 1:
            self._fetches.start_all(source, indexes)
        if source.size > AT_ONCE_BYTES:
            self._read_ahead(source, start, end)
        return [self._read_block(source, index, *_within(index, start, end)) for index in indexes]

    def _read_small(self, position: int, start: int, end: int) -> memoryview:
        source = self._order.source(position)
        self._batches.note_use(source)
        fetch = self._fetches.find(source.first)
        if fetch is None:
            data = self._read_cached(source, 0, start, end)
            if data is not None:
                return data
            self._batches.want(position, source)
        return self._fetched(fetch, source, 0, start, end)

    def _read_block(self, source: CachedSource, index: int, first: int, last: int) -> memoryview:
        fetch = self._fetches.find(source.key(index))
        data = self._read_cached(source, index, first, last) if fetch is None else None
        return self._fetched(fetch, source, index, first, last) if data is None else data

    def _read_cached(self, source: CachedSource, index: int, first: int, last: int) -> memoryview | None:
        data = self._cache.read(source.key(index), first, last - first, size=source.block_size(index))
        if data is None:
            return None
        with self._counting:
            self.cached_bytes += len(data)
        return memoryview(data)

    def _fetched(self, fetch: BlockFetch | None, source: CachedSource, index: int, first: int, last: int) -> memoryview:
        if fetch is None or not fetch.is_here:
            self._before_waiting()
        while fetch is None or not fetch.is_here:
            fetch = self._fetches.claim(source, _together(source, index))
            self._fetches.finish(fetch)
            # A failed read-ahead is no error of this reader: it tries again itself.
            if fetch.error is not None and not fetch.is_ahead:
                raise fetch.error
        return fetch.block(index)[first:last]

    def _read_ahead(self, source: CachedSource, start: int, end: int) -> None:
        begin, stop = self._sequences.advance(source.name, start, end, self._fetches.ahead_bytes)
        blocks = range(-(-begin // BLOCK_BYTES), -(-min(stop, source.size) // BLOCK_BYTES))
        if blocks:
            self._fetches.start_ahead(source, blocks)

    def _read_whole(self, file: SourceFile, store: DataStore, start: int, length: int) -> Sequence[memoryview]:
        pieces = [memoryview(piece) for piece in self._whole.read(file, store, start, length)]
        with self._counting:
            self.cached_bytes += sum(map(len, pieces))
        return pieces


def _within(index: int, start: int, end: int) -> tuple[int, int]:
    """Part of the block between two offsets of the file, relative to the block."""
    return max(start - index * BLOCK_BYTES, 0), min(end - index * BLOCK_BYTES, BLOCK_BYTES)


def _together(source: CachedSource, index: int) -> range:
    """Blocks to fetch together. A small file is fetched whole: a second request costs more than its bytes."""
    is_small = source.size <= AT_ONCE_BYTES
    return range(index, -(-source.size // BLOCK_BYTES) if is_small else index + 1)


_FIRST_WINDOW = 2 << 20
_STEP_BYTES = 4 << 20
"""Step of a wide window: few large requests cost less than many small ones."""
_SLACK_BYTES = 2 << 20
_READERS_PER_FILE = 8
_FILES = 512


@dataclass
class _SequentialReader:
    """Position of one sequential reader in a file."""

    next: int
    ahead: int
    window: int = 0

    def is_met_by(self, start: int) -> bool:
        # The kernel reads ahead in parallel, so requests arrive a little out of order.
        return self.next - _SLACK_BYTES <= start <= self.next + _SLACK_BYTES


class SequentialReads:
    """Detects sequential reads of files, and says which range to read ahead."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._files: OrderedDict[bytes, list[_SequentialReader]] = OrderedDict()

    def advance(self, name: bytes, start: int, end: int, most: int) -> tuple[int, int]:
        """Note a read. Returns the range to fetch now, at most `most` bytes ahead; empty for random reads."""
        with self._guard:
            readers = self._files.setdefault(name, [])
            self._files.move_to_end(name)
            if len(self._files) > _FILES:
                self._files.popitem(last=False)
            for reader in readers:
                if reader.is_met_by(start):
                    return _advance(reader, end, most)
            readers.append(_SequentialReader(next=end, ahead=end))
            del readers[:-_READERS_PER_FILE]
            return end, end


def _advance(reader: _SequentialReader, end: int, most: int) -> tuple[int, int]:
    reader.window = min(max(2 * reader.window, _FIRST_WINDOW), most)
    reader.next = max(reader.next, end)
    begin = max(reader.ahead, reader.next)
    wanted = reader.next + reader.window
    if wanted - begin >= min(_STEP_BYTES, reader.window // 2):
        reader.ahead = wanted
        return begin, wanted
    return begin, begin
