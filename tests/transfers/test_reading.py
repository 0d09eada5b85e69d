import os
import random
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from runyard.transfers import BlockCache, Reader
from tests.transfers.memory_store import MemoryStore

MB = 1 << 20
LARGE = random.Random(1).randbytes(9 * MB + 12345)


def joined(pieces) -> bytes:
    return b"".join(pieces)


def reader_on(store: MemoryStore, folder: Path, limit: int = 1 << 30) -> Reader:
    return Reader(BlockCache(folder, limit), {"far": store})


def test_a_second_read_comes_from_the_cache(tmp_path: Path) -> None:
    store = MemoryStore({"a": LARGE})
    first = reader_on(store, tmp_path)
    assert joined(first.read(store.source("a"), 0, len(LARGE))) == LARGE
    first.close()
    store.reads.clear()
    second = reader_on(store, tmp_path)
    assert joined(second.read(store.source("a"), 5, 100)) == LARGE[5:105]
    assert joined(second.read(store.source("a"), 0, 10**9)) == LARGE
    assert store.reads == []
    assert second.cached_bytes == len(LARGE) + 100
    assert second.fetched_bytes == 0
    second.close()
