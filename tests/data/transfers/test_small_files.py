"""Small files of a dataset, which come with those that follow them."""

import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from runyard.core.errors import NotFound, SourceChanged
from runyard.core.records.data import SourceFile
from runyard.data.transfers import BlockCache, Reader
from runyard.data.transfers.fetches import BlockFetches, CachedSource
from runyard.data.transfers.prefetch import BatchFetcher, FileOrder
from runyard.data.transfers.source_checks import Checksums
from tests.data.transfers.conftest import OpenReader
from tests.data.transfers.many_store import ManyStore
from tests.data.transfers.memory_store import MemoryStore

MB = 1 << 20
COUNT = 600


def content(number: int, size: int = 1000) -> bytes:
    return random.Random(number).randbytes(size + number % 7)


@pytest.fixture
def store() -> ManyStore:
    return ManyStore({f"{number:04}": content(number) for number in range(COUNT)})


@pytest.fixture
def files(store: ManyStore) -> list[SourceFile]:
    return [store.source(f"{number:04}") for number in range(COUNT)]


@pytest.fixture
def reader(open_reader: OpenReader, store: ManyStore, files: list[SourceFile]) -> Reader:
    reader = open_reader(store)
    reader.follow(files)
    return reader


def check(reader: Reader, files: Sequence[SourceFile], numbers: Sequence[int]) -> None:
    for number in numbers:
        assert b"".join(reader.read(files[number], 0, 1 << 40)) == content(number)


def test_an_epoch_in_order_asks_for_each_file_once_and_for_many_at_a_time(reader, store, files) -> None:
    check(reader, files, range(COUNT))
    reader.close()
    assert sorted(store.asked_together) == [file.key for file in files]
    assert len(store.batches) < COUNT / 10
    assert store.reads == []
    assert reader.fetched_bytes == sum(len(content(number)) for number in range(COUNT))


def test_a_shuffled_epoch_asks_for_each_file_once_and_for_many_at_a_time(reader, store, files) -> None:
    check(reader, files, random.Random(1).sample(range(COUNT), COUNT))
    reader.close()
    assert sorted(store.asked_together) == [file.key for file in files]
    assert len(store.batches) < COUNT / 3


def test_many_threads_read_every_file_right(reader, store, files) -> None:
    order = random.Random(2).sample(range(COUNT), COUNT)
    with ThreadPoolExecutor(16) as pool:
        for done in [pool.submit(check, reader, files, order[first::16]) for first in range(16)]:
            done.result()
    reader.close()
    assert sorted(store.asked_together) == [file.key for file in files]


def test_a_part_of_a_small_file_is_read(reader, files) -> None:
    assert b"".join(reader.read(files[3], 10, 20)) == content(3)[10:30]
    assert b"".join(reader.read(files[3], 10, 0)) == b""
    assert b"".join(reader.read(files[3], 5000, 20)) == b""


def test_the_first_file_brings_few_others(reader, store, files) -> None:
    check(reader, files, [0])
    reader.close()
    assert store.batches == [["0000", "0001"]]


def test_files_here_and_there_bring_not_much_more_than_what_is_read(open_reader: OpenReader) -> None:
    size = 200_000
    store = ManyStore({f"{number:05}": bytes(size) for number in range(5000)})
    files = [store.source(f"{number:05}") for number in range(5000)]
    reader = open_reader(store)
    reader.follow(files)
    for number in range(0, 5000, 50):
        reader.read(files[number], 0, size)
    reader.close()
    assert reader.fetched_bytes <= 2 * 100 * size + 40 * MB


def test_a_second_process_asks_for_nothing(reader, store, files, open_reader: OpenReader) -> None:
    check(reader, files, range(COUNT))
    reader.close()
    store.batches.clear()
    second = open_reader(store)
    second.follow(files)
    check(second, files, range(COUNT))
    assert store.asked_together == []
    assert second.fetched_bytes == 0


def test_what_is_wanted_while_others_are_on_their_way_is_asked_for_together(cache: BlockCache, store, files) -> None:
    fetches = BlockFetches(cache, 1, Checksums())
    order = FileOrder(lambda file: CachedSource.of(file, file.size, store))
    order.add(files)
    batches = BatchFetcher(fetches, {"far": store}, order)
    store.may_answer.clear()
    batches.want(0, order.source(0))
    store.has_asked.acquire()
    for place in range(200, 300, 10):
        batches.want(place, order.source(place))
    store.may_answer.set()
    batches.close()
    fetches.close()
    assert [path for path in store.batches[1] if path.endswith("0")] == [f"{place:04}" for place in range(200, 300, 10)]


def test_what_does_not_come_with_others_is_read_alone(reader, store, files) -> None:
    store.refused = {file.key for file in files[::3]}
    check(reader, files, range(COUNT))
    assert {path for path, _, _ in store.reads} == store.refused


def test_the_error_of_one_file_is_its_own(reader, store, files) -> None:
    store.delete("0005")
    store.set("0007", b"another")
    check(reader, files, [0, 1, 2, 3, 4])
    with pytest.raises(NotFound):
        reader.read(files[5], 0, 10)
    check(reader, files, [6])
    with pytest.raises(SourceChanged):
        reader.read(files[7], 0, 10)
    check(reader, files, range(8, 50))
    store.set("0005", content(5))
    check(reader, files, [5])


def test_a_store_that_fails_to_give_many_is_read_one_by_one(reader, store, files) -> None:
    def broken(wanted: object) -> None:
        raise ValueError("a defect")

    store.read_many = broken
    check(reader, files, range(20))
    assert len(store.reads) == 20


def test_files_damaged_on_the_way_are_read_again(reader, store, files) -> None:
    damages = iter([lambda data: b"?" + data[1:]])
    store.damaged = lambda data: next(damages, bytes)(data)
    check(reader, files, range(10))
    assert len(store.reads) == 1


def test_large_files_and_those_of_unknown_size_lie_between_small_ones(open_reader: OpenReader) -> None:
    contents = {"a": content(1), "b": content(2, 3 * MB), "c": content(3), "d": content(4), "e": b"", "f": content(6)}
    store = ManyStore(contents)
    listed = {path: store.source(path, tells_size=path != "d", is_ranged=path != "d") for path in contents}
    reader = open_reader(store)
    reader.follow(list(listed.values()))
    for path, expected in contents.items():
        assert b"".join(reader.read(listed[path], 0, 1 << 40)) == expected
    reader.close()
    assert set(store.asked_together) == {"a", "c", "f"}


def test_stores_that_cannot_give_many_are_read_as_ever(tmp_path: Path) -> None:
    ours, theirs = ManyStore({"a": content(1), "c": content(3)}), MemoryStore({"b": content(2)}, identity="memory:2")
    listed = [ours.source("a"), SourceFile("b", "other", "b", *_seen(theirs, "b")), ours.source("c")]
    reader = Reader(BlockCache(tmp_path / "cache", 1 << 30), {"far": ours, "other": theirs})
    reader.follow(listed)
    assert [b"".join(reader.read(file, 0, 1 << 40)) for file in listed] == [content(1), content(2), content(3)]
    reader.close()
    assert theirs.reads == [("b", 0, len(content(2)))]


def test_files_that_no_dataset_names_are_read_alone(open_reader: OpenReader, store, files) -> None:
    reader = open_reader(store)
    check(reader, files, range(5))
    assert store.batches == []


def test_a_closed_reader_reads_on(reader, store, files) -> None:
    reader.close()
    check(reader, files, range(5))


def _seen(store: MemoryStore, path: str) -> tuple[int | None, str]:
    stored = store.stat(path)
    return stored.size, stored.etag
