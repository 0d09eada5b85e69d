from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runyard.data.transfers import BlockCache, Reader
from tests.data.transfers.memory_store import MemoryStore

OpenReader = Callable[[MemoryStore], Reader]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data-cache"


@pytest.fixture
def cache(folder: Path) -> BlockCache:
    return BlockCache(folder, 1 << 30)


@pytest.fixture
def open_reader(folder: Path) -> Iterator[OpenReader]:
    """Readers as of one process each: they share nothing but the folder of the cache."""
    readers: list[Reader] = []

    def opened(store: MemoryStore) -> Reader:
        readers.append(Reader(BlockCache(folder, 1 << 30), {"far": store}))
        return readers[-1]

    yield opened
    for reader in readers:
        reader.close()
