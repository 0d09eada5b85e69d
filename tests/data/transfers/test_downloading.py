import hashlib
import multiprocessing
import os
import random
import signal
import threading
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from runyard.core.errors import DataFailed, InvalidArgument, RunyardError, SourceChanged, StorageFull, Unreachable
from runyard.core.records.data import NetworkRules, SourceFile, StoreAccess
from runyard.data.datastores.factory import open_store
from runyard.data.transfers import BlockCache, download
from runyard.testing.small_disk import mounted
from tests.data.transfers.memory_store import MemoryStore

pytestmark = pytest.mark.slow

MB = 1 << 20
PART = 8 * MB
HUGE = random.Random(5).randbytes(68 * MB + 321)
MIDDLE = HUGE[: 6 * MB + 1]
SMALL = HUGE[:10_000]
forked = multiprocessing.get_context("fork")


def untold(size: int) -> None:
    pass


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "target"


def bring(store: MemoryStore, target: Path, cache: BlockCache, **how: bool) -> None:
    items = [(store.source(stored.path, **how), target / stored.path) for stored in store.list()]
    download(items, {"far": store}, cache, untold)


def names_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("is_ranged", [True, False])
@pytest.mark.parametrize("tells_size", [True, False])
@pytest.mark.parametrize("has_etags", [True, False])
def test_files_of_all_sizes_arrive(
    target: Path, cache: BlockCache, is_ranged: bool, tells_size: bool, has_etags: bool
) -> None:
    files = {"a/empty": b"", "a/small": SMALL, "middle": MIDDLE, "deep/down/huge": HUGE}
    store = MemoryStore(files, has_etags=has_etags)
    told: list[int] = []
    items = [(store.source(path, is_ranged=is_ranged, tells_size=tells_size), target / path) for path in files]
    download(items, {"far": store}, cache, told.append)
    assert names_below(target) == sorted(files)
    assert all((target / path).read_bytes() == data for path, data in files.items())
    assert sum(told) >= len(HUGE)


def test_progress_adds_up(target: Path, cache: BlockCache) -> None:
    store = MemoryStore({"small": SMALL, "middle": MIDDLE, "huge": HUGE})
    told: list[int] = []
    items = [(store.source(path), target / path) for path in ("small", "middle", "huge")]
    download(items, {"far": store}, cache, told.append)
    assert sum(told) == len(SMALL) + len(MIDDLE) + len(HUGE)


def test_no_files_are_brought_at_once(cache: BlockCache) -> None:
    download([], {}, cache, untold)


def test_a_second_download_of_small_files_asks_nothing_of_the_store(tmp_path: Path, cache: BlockCache) -> None:
    store = MemoryStore({f"{number}": SMALL[number:] for number in range(50)} | {"middle": MIDDLE})
    bring(store, tmp_path / "first", cache)
    store.reads.clear()
    bring(store, tmp_path / "second", cache)
    assert store.reads == []
    assert (tmp_path / "second/middle").read_bytes() == MIDDLE


def test_large_files_go_past_the_cache(target: Path, cache: BlockCache) -> None:
    bring(MemoryStore({"huge": HUGE}), target, cache)
    assert cache.size() == 0


def test_a_file_there_is_replaced_and_a_link_there_is_not_followed(
    tmp_path: Path, target: Path, cache: BlockCache
) -> None:
    (tmp_path / "elsewhere").write_bytes(b"theirs")
    target.mkdir()
    (target / "small").symlink_to(tmp_path / "elsewhere")
    (target / "huge").write_bytes(b"earlier")
    bring(MemoryStore({"small": SMALL, "huge": HUGE}), target, cache)
    assert (target / "small").read_bytes() == SMALL
    assert (target / "huge").read_bytes() == HUGE
    assert (tmp_path / "elsewhere").read_bytes() == b"theirs"


def test_a_failed_download_goes_on_where_it_was(target: Path, cache: BlockCache) -> None:
    store = MemoryStore({"huge": HUGE})

    def away(path: str, start: int) -> None:
        if start >= 5 * PART:
            raise Unreachable("The store does not answer.")

    store.before_read = away
    with pytest.raises(Unreachable):
        bring(store, target, cache)
    assert not (target / "huge").exists()
    store.before_read = lambda path, start: None
    store.reads.clear()
    bring(store, target, cache)
    assert (target / "huge").read_bytes() == HUGE
    assert names_below(target) == ["huge"]
    assert len(store.reads) <= 4 + 5
    assert ("huge", 8 * PART, len(HUGE) - 8 * PART) in store.reads


def _download_until_killed(store: MemoryStore, target: Path, folder: Path, told: Connection) -> None:
    def stop(path: str, start: int) -> None:
        if start >= 6 * PART:
            told.send("most of it is here")
            signal.pause()

    store.before_read = stop
    download([(store.source("huge"), target / "huge")], {"far": store}, BlockCache(folder, 1 << 30), untold, threads=1)


def test_a_killed_download_goes_on_where_it_was(target: Path, folder: Path, cache: BlockCache) -> None:
    store = MemoryStore({"huge": HUGE})
    heard, told = forked.Pipe(duplex=False)
    killed = forked.Process(target=_download_until_killed, args=(store, target, folder, told))
    killed.start()
    assert heard.recv() == "most of it is here"
    assert killed.pid is not None
    os.kill(killed.pid, signal.SIGKILL)
    killed.join()
    bring(store, target, cache)
    assert (target / "huge").read_bytes() == HUGE
    assert sorted(start for _, start, _ in store.reads) == [6 * PART, 7 * PART, 8 * PART]
    assert names_below(target) == ["huge"]


def test_parts_of_another_version_are_not_used(target: Path, cache: BlockCache) -> None:
    store = MemoryStore({"huge": HUGE})

    def away(path: str, start: int) -> None:
        if start:
            raise Unreachable("The store does not answer.")

    store.before_read = away
    with pytest.raises(Unreachable):
        bring(store, target, cache)
    store.before_read = lambda path, start: None
    store.set("huge", HUGE[::-1])
    bring(store, target, cache)
    assert (target / "huge").read_bytes() == HUGE[::-1]
    assert names_below(target) == ["huge"]


def test_parts_that_were_damaged_meanwhile_are_noticed(target: Path, cache: BlockCache) -> None:
    store = MemoryStore({"huge": HUGE})

    def away(path: str, start: int) -> None:
        if start >= 5 * PART:
            raise Unreachable("The store does not answer.")

    store.before_read = away
    with pytest.raises(Unreachable):
        bring(store, target, cache)
    with next(target.glob(".*.partial")).open("r+b") as file:
        file.write(b"other bytes")
    store.before_read = lambda path, start: None
    bring(store, target, cache)
    assert (target / "huge").read_bytes() == HUGE


@pytest.mark.parametrize("data", [SMALL, MIDDLE, HUGE], ids=["small", "middle", "huge"])
def test_bytes_damaged_on_the_way_are_fetched_again(target: Path, cache: BlockCache, data: bytes) -> None:
    store = MemoryStore({"file": data})
    left = threading.Semaphore(1)
    store.damaged = lambda part: b"?" + part[1:] if left.acquire(blocking=False) else part
    bring(store, target, cache)
    assert (target / "file").read_bytes() == data


@pytest.mark.parametrize("data", [SMALL, MIDDLE, HUGE], ids=["small", "middle", "huge"])
def test_bytes_damaged_again_and_again_are_refused(target: Path, cache: BlockCache, data: bytes) -> None:
    store = MemoryStore({"file": data})
    store.damaged = lambda part: os.urandom(16) + part[16:]
    with pytest.raises(DataFailed, match="'file' came damaged twice"):
        bring(store, target, cache)
    assert not (target / "file").exists()


@pytest.mark.parametrize("data", [SMALL, MIDDLE, HUGE], ids=["small", "middle", "huge"])
def test_an_etag_that_only_looks_like_a_checksum_is_no_hindrance(target: Path, cache: BlockCache, data: bytes) -> None:
    store = MemoryStore({"file": data})
    store.damaged = lambda part: bytes(len(part))
    bring(store, target, cache)
    assert (target / "file").read_bytes() == bytes(len(data))


@pytest.mark.parametrize("is_ranged", [True, False])
def test_a_file_that_changed_since_it_was_listed_is_named(target: Path, cache: BlockCache, is_ranged: bool) -> None:
    store = MemoryStore({"file": SMALL})
    file = store.source("file", is_ranged=is_ranged)
    store.set("file", SMALL + b"more")
    with pytest.raises(SourceChanged, match="'file'"):
        download([(file, target / "file")], {"far": store}, cache, untold)
    assert names_below(target) == []


@pytest.mark.parametrize("files", [{"huge": HUGE}, {str(number): MIDDLE for number in range(8)}], ids=["huge", "many"])
def test_a_full_disk_is_said_and_leaves_nothing_half_done(
    tmp_path: Path, cache: BlockCache, files: dict[str, bytes]
) -> None:
    with mounted(tmp_path / "disk", megabytes=16) as disk:
        with pytest.raises(StorageFull):
            bring(MemoryStore(files), disk, cache)
        assert set(names_below(disk)) <= set(files)
        assert all((disk / name).read_bytes() == files[name] for name in names_below(disk))


def test_a_disk_that_fills_in_the_midst_leaves_nothing_half_done(tmp_path: Path, cache: BlockCache) -> None:
    store = MemoryStore({"huge": HUGE})
    with mounted(tmp_path / "disk", megabytes=80) as disk:
        pieces = iter([bytes(20 * MB)])

        def fill(path: str, start: int) -> None:
            for piece in pieces:
                with suppress(OSError):  # what is fetched may have filled it already
                    (disk / "another").write_bytes(piece)

        store.before_read = fill
        with pytest.raises(StorageFull, match="huge"):
            bring(store, disk, cache)
        assert names_below(disk) == ["another"]


def test_a_name_the_disk_does_not_take_is_an_error_that_names_it(target: Path, cache: BlockCache) -> None:
    store = MemoryStore({"a" * 5000: SMALL})
    with pytest.raises(RunyardError, match="aaaa"):
        bring(store, target, cache)


def test_an_unknown_datastore_is_named(target: Path, cache: BlockCache) -> None:
    with pytest.raises(InvalidArgument, match="'elsewhere'"):
        download([(SourceFile("a", "elsewhere", "a", 5, "1"), target / "a")], {}, cache, untold)


def test_after_an_error_no_more_files_are_begun(target: Path, cache: BlockCache) -> None:
    store = MemoryStore({str(number): SMALL for number in range(1000)})

    def away(path: str, start: int) -> None:
        raise Unreachable("The store does not answer.")

    store.before_read = away
    with pytest.raises(Unreachable):
        bring(store, target, cache)
    assert len(store.reads) <= 32


def test_files_of_a_folder_here_are_copied_past_the_cache(tmp_path: Path, target: Path, cache: BlockCache) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store/small").write_bytes(SMALL)
    store = open_store(StoreAccess("folder", str(tmp_path / "store")), NetworkRules())
    stored = store.stat("small")
    file = SourceFile("small", "here", "small", stored.size, stored.etag)
    download([(file, target / "small")], {"here": store}, cache, untold)
    assert (target / "small").read_bytes() == SMALL
    assert cache.size() == 0


def test_the_checksum_is_of_the_bytes_on_disk(target: Path, cache: BlockCache) -> None:
    store = MemoryStore({"huge": HUGE})
    bring(store, target, cache)
    assert hashlib.md5((target / "huge").read_bytes()).hexdigest() == store.stat("huge").etag.strip('"')
