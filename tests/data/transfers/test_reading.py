import random
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runyard.core.errors import InvalidArgument, NotFound, SourceChanged, Unreachable
from runyard.core.records.data import SourceFile
from runyard.data.transfers import BlockCache, Reader
from tests.data.transfers.conftest import OpenReader
from tests.data.transfers.memory_store import MemoryStore

MB = 1 << 20
LARGE = random.Random(1).randbytes(9 * MB + 12345)
SMALL = LARGE[:10_000]


def whole(reader: Reader, file: SourceFile) -> bytes:
    return b"".join(reader.read(file, 0, 1 << 40))


@pytest.fixture(scope="module")
def worn_reader(tmp_path_factory: pytest.TempPathFactory):
    store = MemoryStore({"large": LARGE, "small": SMALL, "empty": b"", "exact": LARGE[: 2 * MB]})
    reader = Reader(BlockCache(tmp_path_factory.mktemp("cache"), 8 * MB), {"far": store}, threads=4)
    yield reader, store
    reader.close()


@settings(max_examples=200, deadline=None)
@given(
    name=st.sampled_from(["large", "small", "empty", "exact"]),
    start=st.one_of(st.integers(0, len(LARGE) + 10), st.sampled_from([0, MB - 1, MB, MB + 1, 2 * MB, 9 * MB])),
    length=st.one_of(st.integers(0, 3 * MB), st.sampled_from([0, 1, MB, 1 << 40])),
    is_ranged=st.booleans(),
    tells_size=st.booleans(),
)
def test_any_part_is_as_in_the_file(worn_reader, name, start, length, is_ranged, tells_size) -> None:
    reader, store = worn_reader
    file = store.source(name, is_ranged=is_ranged, tells_size=tells_size)
    expected = {"large": LARGE, "small": SMALL, "empty": b"", "exact": LARGE[: 2 * MB]}[name]
    assert b"".join(reader.read(file, start, length)) == expected[start : start + length]


def test_a_second_process_reads_from_the_cache(open_reader: OpenReader) -> None:
    store = MemoryStore({"a": LARGE, "b": SMALL})
    first = open_reader(store)
    assert whole(first, store.source("a")) == LARGE
    assert whole(first, store.source("b")) == SMALL
    first.close()
    store.reads.clear()
    second = open_reader(store)
    assert b"".join(second.read(store.source("a"), 5, 100)) == LARGE[5:105]
    assert whole(second, store.source("a")) == LARGE
    assert whole(second, store.source("b")) == SMALL
    assert store.reads == []
    assert second.cached_bytes == len(LARGE) + len(SMALL) + 100
    assert (first.fetched_bytes, second.fetched_bytes) == (len(LARGE) + len(SMALL), 0)


def test_negative_places_are_refused(open_reader: OpenReader) -> None:
    store = MemoryStore({"a": SMALL})
    with pytest.raises(InvalidArgument, match="negative"):
        open_reader(store).read(store.source("a"), -1, 5)


def test_an_unknown_datastore_is_named(open_reader: OpenReader) -> None:
    with pytest.raises(InvalidArgument, match="'elsewhere'"):
        open_reader(MemoryStore()).read(SourceFile("a", "elsewhere", "a", 5, "1"), 0, 5)


def test_readers_of_one_block_fetch_it_once(open_reader: OpenReader) -> None:
    store = MemoryStore({"a": SMALL})
    reader = open_reader(store)
    all_ask = threading.Barrier(9)
    may_answer = threading.Event()
    store.before_read = lambda path, start: may_answer.wait() and None

    def read() -> bytes:
        all_ask.wait()
        return whole(reader, store.source("a"))

    with ThreadPoolExecutor(8) as pool:
        reads = [pool.submit(read) for _ in range(8)]
        all_ask.wait()
        may_answer.set()
        assert {read.result() for read in reads} == {SMALL}
    assert store.reads == [("a", 0, len(SMALL))]


def test_an_error_reaches_all_who_wait_and_the_next_read_tries_again(open_reader: OpenReader) -> None:
    store = MemoryStore({"a": SMALL})
    reader = open_reader(store)
    asked, may_fail = threading.Event(), threading.Event()

    def fail(path: str, start: int) -> None:
        asked.set()
        may_fail.wait()
        raise Unreachable("The store does not answer.")

    store.before_read = fail
    with ThreadPoolExecutor(4) as pool:
        reads = [pool.submit(whole, reader, store.source("a")) for _ in range(4)]
        asked.wait()
        may_fail.set()
        for read in reads:
            with pytest.raises(Unreachable):
                read.result()
    store.before_read = lambda path, start: None
    assert whole(reader, store.source("a")) == SMALL


def test_a_store_that_goes_away_mid_read_and_comes_back_costs_only_the_reads_meanwhile(
    open_reader: OpenReader,
) -> None:
    store = MemoryStore({"a": LARGE})
    reader, file = open_reader(store), store.source("a")

    def away(path: str, start: int) -> None:
        if start >= 2 * MB:
            raise Unreachable("The store does not answer.")

    store.before_read = away
    got = b"".join(b"".join(reader.read(file, start, MB)) for start in (0, MB))
    with pytest.raises(Unreachable):
        reader.read(file, 2 * MB, MB)
    store.before_read = lambda path, start: None
    got += b"".join(b"".join(reader.read(file, start, MB)) for start in range(2 * MB, len(LARGE), MB))
    assert got == LARGE


def test_reading_ahead_may_fail_unnoticed(open_reader: OpenReader) -> None:
    store = MemoryStore({"a": LARGE})
    reader, file = open_reader(store), store.source("a")
    reader_thread = threading.current_thread()

    def only_for_the_reader(path: str, start: int) -> None:
        if threading.current_thread() is not reader_thread:
            raise Unreachable("The store does not answer.")

    store.before_read = only_for_the_reader
    assert b"".join(b"".join(reader.read(file, start, MB)) for start in range(0, len(LARGE), MB)) == LARGE


def test_a_reader_from_front_to_back_finds_the_next_blocks_fetched(open_reader: OpenReader) -> None:
    store = MemoryStore({"a": LARGE})
    reader, file = open_reader(store), store.source("a")
    own_thread, asked_for = threading.current_thread(), []
    store.before_read = lambda path, start: asked_for.append(threading.current_thread())
    for start in range(0, len(LARGE), MB):
        reader.read(file, start, MB)
    assert asked_for.count(own_thread) <= 3
    assert reader.fetched_bytes == len(LARGE)


def test_reading_here_and_there_fetches_little(open_reader: OpenReader) -> None:
    store = MemoryStore({"a": bytes(256 * MB)})
    reader, file = open_reader(store), store.source("a")
    places = random.Random(3).sample(range(0, 256, 4), 20)
    for place in places:
        assert b"".join(reader.read(file, place * MB + 5, 4096)) == bytes(4096)
    assert reader.fetched_bytes <= 20 * MB


def test_a_file_that_changed_is_said_to_have(open_reader: OpenReader) -> None:
    store = MemoryStore({"a": SMALL})
    file = store.source("a")
    store.set("a", SMALL[::-1])
    with pytest.raises(SourceChanged):
        whole(open_reader(store), file)


def test_a_file_that_is_gone_is_not_found(open_reader: OpenReader) -> None:
    store = MemoryStore({"a": SMALL})
    file = store.source("a")
    store.delete("a")
    with pytest.raises(NotFound):
        whole(open_reader(store), file)


def test_another_version_is_not_taken_from_the_cache(open_reader: OpenReader) -> None:
    store = MemoryStore({"a": SMALL})
    reader = open_reader(store)
    whole(reader, store.source("a"))
    store.set("a", SMALL[::-1])
    assert whole(reader, store.source("a")) == SMALL[::-1]


def test_two_stores_of_one_name_are_not_mixed(open_reader: OpenReader) -> None:
    ours = MemoryStore({"a": SMALL}, identity="memory:ours")
    theirs = MemoryStore({"a": SMALL}, identity="memory:theirs")
    first = open_reader(theirs)
    whole(first, theirs.source("a"))
    first.close()
    whole(open_reader(ours), ours.source("a"))
    assert ours.reads == [("a", 0, len(SMALL))]


@pytest.mark.parametrize("is_ranged", [True, False])
def test_a_file_without_an_etag_is_kept_for_its_process_alone(open_reader: OpenReader, is_ranged: bool) -> None:
    store = MemoryStore({"a": SMALL}, has_etags=False)
    file = store.source("a", is_ranged=is_ranged)
    first = open_reader(store)
    assert [whole(first, file), whole(first, file)] == [SMALL, SMALL]
    assert len(store.reads + store.fetches) == 1
    first.close()
    assert whole(open_reader(store), file) == SMALL
    assert len(store.reads + store.fetches) == 2


def test_a_file_that_comes_only_whole_is_fetched_once_for_all(open_reader: OpenReader) -> None:
    store = MemoryStore({"a": LARGE})
    file = store.source("a", is_ranged=False, tells_size=False)
    first, second = open_reader(store), open_reader(store)
    assert first.size(file) == len(LARGE)
    assert b"".join(first.read(file, 7 * MB, 10)) == LARGE[7 * MB : 7 * MB + 10]
    assert whole(second, file) == LARGE
    assert store.fetches == ["a"]
    assert first.fetched_bytes == len(LARGE)


def test_a_key_of_five_thousand_characters_is_kept(open_reader: OpenReader) -> None:
    key = "/".join(["ü" * 99] * 50)
    store = MemoryStore({key: SMALL})
    first = open_reader(store)
    whole(first, store.source(key))
    first.close()
    assert whole(open_reader(store), store.source(key)) == SMALL
    assert len(store.reads) == 1


def test_bytes_damaged_on_the_way_are_fetched_again(open_reader: OpenReader) -> None:
    store = MemoryStore({"a": SMALL})
    damages = iter([lambda data: b"?" + data[1:]])
    store.damaged = lambda data: next(damages, bytes)(data)
    assert whole(open_reader(store), store.source("a")) == SMALL


def test_etags_that_only_look_like_checksums_are_believed_once(open_reader: OpenReader, folder: Path) -> None:
    store = MemoryStore({"a": SMALL, "b": SMALL})
    store.damaged = lambda data: data[::-1]  # as a store does that encrypts: the same bytes each time
    reader = open_reader(store)
    assert whole(reader, store.source("a")) == SMALL[::-1]
    assert whole(reader, store.source("b")) == SMALL[::-1]
    assert [path for path, _, _ in store.reads] == ["a", "a", "b"]
