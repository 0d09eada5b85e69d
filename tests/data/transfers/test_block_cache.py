import multiprocessing
import os
import signal
import time
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from runyard.core.errors import InvalidArgument
from runyard.data.transfers import BlockCache, Reader, block_cache, cache_limit, segments
from runyard.data.transfers.segments import BlockKey
from runyard.testing.small_disk import mounted
from tests.data.transfers.memory_store import MemoryStore

pytestmark = pytest.mark.slow

MB = 1 << 20
HOUR = timedelta(hours=1)
forked = multiprocessing.get_context("fork")


def numbered(count: int, size: int = MB) -> MemoryStore:
    return MemoryStore({str(number): bytes([number % 251]) * size for number in range(count)})


def read_all(folder: Path, store: MemoryStore, limit: int = 1 << 30) -> Reader:
    """Through a cache of its own, as another process has it; checks every byte."""
    reader = Reader(BlockCache(folder, limit), {"far": store})
    for stored in store.list():
        assert b"".join(reader.read(store.source(stored.path), 0, 1 << 40)) == store.content(stored.path)
    reader.close()
    return reader


def data_files(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / "segments").iterdir() if path.suffix != ".index")


def indexes(folder: Path) -> list[Path]:
    return sorted((folder / "segments").glob("*.index"))


def last_used(folder: Path, ago: timedelta) -> None:
    for index in indexes(folder):
        os.utime(index, (time.time() - ago.total_seconds(),) * 2)


def test_a_block_that_was_cut_short_is_fetched_again(folder: Path) -> None:
    store = numbered(3)
    read_all(folder, store)
    os.truncate(data_files(folder)[0], MB + 5)
    assert read_all(folder, store).fetched_bytes == 3 * MB


def test_a_block_rewritten_in_place_is_fetched_again_even_when_its_time_was_set_back(folder: Path) -> None:
    store = numbered(3)
    read_all(folder, store)
    segment = data_files(folder)[0]
    before = segment.stat()
    with segment.open("r+b") as file:
        file.write(b"other bytes")
    os.utime(segment, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert segment.stat().st_mtime_ns == before.st_mtime_ns
    assert read_all(folder, store).fetched_bytes == 3 * MB


def test_a_block_rewritten_while_its_writer_lives_is_never_used(folder: Path) -> None:
    store = numbered(3)
    cache = BlockCache(folder, 1 << 30)
    reader = Reader(cache, {"far": store})
    reader.read(store.source("0"), 0, MB)
    with data_files(folder)[0].open("r+b") as file:
        file.write(b"other bytes")
    reader.read(store.source("1"), 0, MB)
    reader.close()
    assert read_all(folder, store).fetched_bytes == 3 * MB


def test_a_writer_that_goes_on_in_a_segment_keeps_what_was_there(folder: Path) -> None:
    early, late = numbered(2), numbered(4)
    read_all(folder, early)
    assert read_all(folder, late).fetched_bytes == 2 * MB
    assert len(data_files(folder)) == 1
    assert read_all(folder, late).fetched_bytes == 0


def test_an_index_cut_within_a_record_loses_no_more_than_that_record(folder: Path) -> None:
    store = numbered(3)
    read_all(folder, store)
    index = indexes(folder)[0]
    os.truncate(index, index.stat().st_size + 7)
    assert read_all(folder, store).fetched_bytes == 0


@pytest.mark.parametrize("junk", [b"", b"\xff" * 1000])
def test_an_index_of_junk_harms_nobody(folder: Path, junk: bytes) -> None:
    store = numbered(3)
    read_all(folder, store)
    indexes(folder)[0].write_bytes(junk)
    assert read_all(folder, store).fetched_bytes == 3 * MB


def test_the_least_recently_used_goes_first(folder: Path) -> None:
    old, new = numbered(4), MemoryStore({f"new{number}": bytes([number]) * MB for number in range(4)})
    read_all(folder, old, limit=16 * MB)
    last_used(folder, ago=HOUR)
    read_all(folder, new, limit=16 * MB)
    cache = BlockCache(folder, 6 * MB)
    cache.trim()
    assert cache.size() <= 6 * MB
    assert read_all(folder, new).fetched_bytes == 0
    assert read_all(folder, old).fetched_bytes > 0


def test_more_than_fits_is_read_all_the_same(folder: Path) -> None:
    read_all(folder, numbered(20), limit=5 * MB)
    assert 0 < BlockCache(folder, 5 * MB).size() <= 5 * MB + 2 * MB


def test_a_cache_of_nothing_keeps_nothing(folder: Path) -> None:
    assert read_all(folder, numbered(3), limit=0).fetched_bytes == 3 * MB
    assert BlockCache(folder, 0).size() == 0


def test_a_reader_goes_on_with_blocks_that_are_evicted_under_it(folder: Path) -> None:
    store = numbered(40)
    read_all(folder, store)
    reader = Reader(BlockCache(folder, 1 << 30), {"far": store})
    reader.read(store.source("0"), 0, 10)
    BlockCache(folder, 0).trim()
    assert data_files(folder) == []
    for stored in store.list():
        assert b"".join(reader.read(store.source(stored.path), 0, MB)) == store.content(stored.path)
    reader.close()


def _read_again_and_again(folder: Path, told: Connection) -> None:
    store = numbered(30)
    for _ in range(4):
        read_all(folder, store, limit=8 * MB)
    told.send("all right")


def test_processes_share_the_bound_and_never_see_wrong_bytes(folder: Path) -> None:
    ends = [forked.Pipe(duplex=False) for _ in range(3)]
    readers = [forked.Process(target=_read_again_and_again, args=(folder, told)) for _, told in ends]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join(60)
    assert [heard.poll() and heard.recv() for heard, _ in ends] == ["all right"] * 3
    cache = BlockCache(folder, 8 * MB)
    cache.trim()
    assert cache.size() <= 8 * MB


def _read_until_killed(folder: Path, told: Connection) -> None:
    store = numbered(200)
    reader = Reader(BlockCache(folder, 1 << 30), {"far": store})
    for number in range(200):
        reader.read(store.source(str(number)), 0, MB)
        if number == 20:
            told.send("in the midst")
    signal.pause()


def test_a_writer_killed_at_any_point_leaves_nothing_that_is_taken_for_whole(folder: Path) -> None:
    heard, told = forked.Pipe(duplex=False)
    writer = forked.Process(target=_read_until_killed, args=(folder, told))
    writer.start()
    assert heard.recv() == "in the midst"
    assert writer.pid is not None
    os.kill(writer.pid, signal.SIGKILL)
    writer.join()
    read_all(folder, numbered(200))
    assert read_all(folder, numbered(200)).fetched_bytes == 0


def test_what_a_killed_process_left_without_an_index_goes_after_an_hour(folder: Path) -> None:
    read_all(folder, numbered(1))
    left = [folder / "segments" / name for name in ("1-whole.part", "2", "3.index")]
    for path in left:
        path.write_bytes(b"half")
    BlockCache(folder, 1 << 30).trim()
    assert all(path.exists() for path in left)
    for path in left:
        os.utime(path, (time.time() - 7200,) * 2)
    BlockCache(folder, 1 << 30).trim()
    assert not any(path.exists() for path in left)


def test_a_full_disk_stops_keeping_not_reading_and_is_said_once(tmp_path: Path) -> None:
    said: list[str] = []
    store = numbered(20)
    with mounted(tmp_path / "disk", megabytes=4) as disk:
        reader = Reader(BlockCache(disk / "cache", 1 << 30, said.append), {"far": store})
        for stored in store.list():
            assert b"".join(reader.read(store.source(stored.path), 0, MB)) == store.content(stored.path)
        reader.close()
        read_all(disk / "cache", store)
    assert len(said) == 1
    assert "its disk is full" in said[0]


def test_a_folder_that_cannot_be_written_stops_keeping_not_reading(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    said: list[str] = []
    store = numbered(3)
    reader = Reader(BlockCache(tmp_path / "file" / "cache", 1 << 30, said.append), {"far": store})
    assert b"".join(reader.read(store.source("2"), 0, MB)) == store.content("2")
    reader.close()
    assert len(said) == 1


def test_prune_removes_what_nobody_read_since(folder: Path) -> None:
    store = numbered(2)
    read_all(folder, store)
    cache = BlockCache(folder, 1 << 30)
    assert cache.prune(HOUR) == []
    last_used(folder, ago=2 * HOUR)
    assert cache.prune(HOUR) == [path.name for path in data_files(folder)] or cache.size() == 0
    assert read_all(folder, store).fetched_bytes == 2 * MB


def test_prune_removes_entries_of_the_earlier_layout(folder: Path) -> None:
    entry = folder / ("ab" * 16)
    entry.mkdir(parents=True)
    (entry / "content").write_bytes(b"x")
    folder.joinpath(f"{entry.name}.lock").touch()
    assert BlockCache(folder, 1 << 30).prune(timedelta()) == [entry.name]
    assert not entry.exists()
    assert not folder.joinpath(f"{entry.name}.lock").exists()


def test_a_forked_child_writes_a_segment_of_its_own(folder: Path) -> None:
    store = numbered(4)
    reader = Reader(BlockCache(folder, 1 << 30), {"far": store})
    reader.read(store.source("0"), 0, MB)

    def child() -> None:
        reader.read(store.source("1"), 0, MB)
        reader.close()

    process = forked.Process(target=child)
    process.start()
    process.join(30)
    assert process.exitcode == 0
    reader.read(store.source("2"), 0, MB)
    reader.close()
    assert read_all(folder, store).fetched_bytes == MB


def test_the_limit_is_a_setting(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNYARD_DATA_CACHE_BYTES", "12345")
    assert cache_limit(folder) == 12345
    monkeypatch.setenv("RUNYARD_DATA_CACHE_BYTES", "20 GB")
    with pytest.raises(InvalidArgument, match=r"'20 GB'.*number of bytes"):
        cache_limit(folder)
    monkeypatch.delenv("RUNYARD_DATA_CACHE_BYTES")
    assert 0 < cache_limit(folder) <= 20 * 1024**3


def test_only_what_was_synced_is_used_after_a_restart_of_the_machine(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, new = numbered(2), MemoryStore({"new": bytes(MB)})
    read_all(folder, store)
    with monkeypatch.context() as soon:
        soon.setattr(block_cache, "_SETTLED_SECONDS", -1.0)
        read_all(folder, store)
    read_all(folder / "fresh", new)
    monkeypatch.setattr(segments, "this_boot", lambda: 12345)
    assert read_all(folder, store).fetched_bytes == 0
    assert read_all(folder / "fresh", new).fetched_bytes == MB


def test_settling_does_not_count_as_use(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = numbered(2)
    read_all(folder, store)
    last_used(folder, ago=HOUR)
    monkeypatch.setattr(block_cache, "_SETTLED_SECONDS", -1.0)
    cache = BlockCache(folder, 1 << 30)
    cache.has(BlockKey(b"x" * 16, 0))
    cache.close()
    assert cache.prune(HOUR / 2) != []
