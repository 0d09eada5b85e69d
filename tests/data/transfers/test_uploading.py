import threading
from pathlib import Path

import pytest

from runyard.core.errors import AlreadyExists
from runyard.core.ports.data import DataStore
from runyard.core.records.data import NetworkRules, StoreAccess
from runyard.data.datastores.factory import open_store
from runyard.data.transfers import upload
from tests.data.transfers.memory_store import MemoryStore


@pytest.fixture(params=["memory", "folder"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> DataStore:
    if request.param == "memory":
        return MemoryStore()
    (tmp_path / "store").mkdir()
    return open_store(StoreAccess("folder", str(tmp_path / "store")), NetworkRules())


def local_files(folder: Path, count: int) -> list[tuple[Path, str]]:
    folder.mkdir(exist_ok=True)
    items = [(folder / f"{number}.bin", f"deep/{number % 7}/{number}.bin") for number in range(count)]
    for number, (source, _) in enumerate(items):
        source.write_bytes(bytes([number % 251]) * (number * 10))
    return items


def test_files_are_stored_and_told_of_in_order(store: DataStore, tmp_path: Path) -> None:
    items = local_files(tmp_path / "local", 100)
    told: list[int] = []
    stored = upload(items, store, overwrite=False, progress=told.append)
    assert [(file.path, file.size) for file in stored] == [(path, source.stat().st_size) for source, path in items]
    assert sum(told) == sum(source.stat().st_size for source, _ in items)
    for source, path in items:
        assert bytes(store.read(path, 0, source.stat().st_size)) == source.read_bytes()
    assert [file.etag for file in stored] == [store.stat(file.path).etag for file in stored]


def test_nothing_to_store_is_quick(store: DataStore) -> None:
    assert list(upload([], store, overwrite=False, progress=lambda size: None)) == []


def test_what_is_there_is_overwritten_only_when_asked(store: DataStore, tmp_path: Path) -> None:
    items = local_files(tmp_path / "local", 3)
    upload(items, store, overwrite=False, progress=lambda size: None)
    items[2][0].write_bytes(b"newer")
    with pytest.raises(AlreadyExists, match="deep"):
        upload(items, store, overwrite=False, progress=lambda size: None)
    assert store.stat(items[2][1]).size == 20
    upload(items, store, overwrite=True, progress=lambda size: None)
    assert store.stat(items[2][1]).size == 5


def test_files_go_side_by_side(tmp_path: Path) -> None:
    store = MemoryStore()
    both = threading.Barrier(2, timeout=30)
    upload(local_files(tmp_path / "local", 2), store, overwrite=False, progress=lambda size: both.wait() and None)
    assert len(list(store.list())) == 2
