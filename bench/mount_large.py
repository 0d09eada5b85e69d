"""One large file through a mount: from the page cache, from the block cache, from the server; and its first bytes."""

import concurrent.futures
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.measuring import Bar, Measurement, at_least, at_most, median, spread_of
from bench.mounted import mounted, seen
from bench.nginx import serving
from runyard.core.records.data import SourceFile

GIB = 1 << 30
REPEATS = 5
READ_BYTES = 1 << 20
SPARSE_BYTES = 10 * 10**9
PARTS = ((4, 8), (8, 8), (16, 4), (4, 32))
"""Ways for obstore to read the file: (threads, MiB a range). The best one is the floor."""


def measure() -> Iterator[Measurement]:
    with tempfile.TemporaryDirectory(prefix="runyard-bench-") as root, serving(Path(root, "served")) as base:
        served, local = Path(root, "served", "large.bin"), Path(root, "local.bin")
        _fill(served)
        shutil.copyfile(served, local)
        (Path(root, "served") / "sparse.bin").touch()
        os.truncate(Path(root, "served", "sparse.bin"), SPARSE_BYTES)
        (large,) = seen(base, ["large.bin"])
        yield from _reads(Path(root), large, local, base)
        yield from _first_bytes(Path(root), *seen(base, ["sparse.bin"]))


def _reads(root: Path, large: SourceFile, local: Path, base: str) -> Iterator[Measurement]:
    rates: dict[str, list[float]] = {"cold": [], "from blocks": [], "again": [], "local": []}
    best = _best_of_obstore(base)
    for _ in range(REPEATS):
        shutil.rmtree(root / "cache", ignore_errors=True)
        with mounted([large], root / "cache") as point:
            rates["cold"].append(_rate(point / "large.bin"))
        with mounted([large], root / "cache") as point:
            rates["from blocks"].append(_rate(point / "large.bin"))
            rates["again"].append(_rate(point / "large.bin"))
            rates["local"].append(_rate(local))
        best = max(best, _best_of_obstore(base))
    value = {name: median(taken) for name, taken in rates.items()}
    half = Bar("at least 0.5 x floor", lambda rate, floor: rate >= 0.5 * floor)
    yield Measurement(
        "1 GiB through a mount, again", value["again"], "GB/s", half, value["local"], spread_of(rates["again"])
    )
    bar = at_least(0.3, "GB/s")
    yield Measurement(
        "1 GiB through a mount, from the block cache",
        value["from blocks"],
        "GB/s",
        bar,
        None,
        spread_of(rates["from blocks"]),
    )
    allowed = value["from blocks"]
    cold = Bar(
        f"at least 0.8 x floor, as far as {allowed:.2f} GB/s from the block cache allow",
        lambda rate, floor: rate >= min(0.8 * floor, 0.8 * allowed),
    )
    yield Measurement("1 GiB through a mount, cold", value["cold"], "GB/s", cold, best, spread_of(rates["cold"]))


def _first_bytes(root: Path, sparse: SourceFile) -> Iterator[Measurement]:
    for where, offset in (("first byte", 0), ("a byte from the middle", SPARSE_BYTES // 2)):
        seconds = []
        for _ in range(REPEATS):
            shutil.rmtree(root / "cache", ignore_errors=True)
            with mounted([sparse], root / "cache") as point, (point / "sparse.bin").open("rb", buffering=0) as file:
                begun = time.perf_counter()
                file.seek(offset)
                assert file.read(1) == b"\0"
                seconds.append(time.perf_counter() - begun)
        yield Measurement(f"{where} of 10 GB, cold", median(seconds), "s", at_most(1, "s"), None, spread_of(seconds))


def _fill(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("wb") as file:
        for _ in range(GIB >> 24):
            file.write(os.urandom(1 << 24))


def _rate(path: Path) -> float:
    """GB/s of a sequential reader."""
    buffer, total, begun = bytearray(READ_BYTES), 0, time.perf_counter()
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(buffer):
            total += count
    assert total == GIB
    return total / 1e9 / (time.perf_counter() - begun)


def _best_of_obstore(base: str) -> float:
    import obstore
    from obstore.store import HTTPStore

    store = HTTPStore.from_url(base, client_options={"allow_http": True})
    best = 0.0
    for threads, mebibytes in PARTS:
        part = mebibytes << 20
        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            begun = time.perf_counter()
            read = pool.map(
                lambda at, part=part: len(obstore.get_range(store, "large.bin", start=at, length=part)),
                range(0, GIB, part),
            )
            assert sum(read) == GIB
            best = max(best, GIB / 1e9 / (time.perf_counter() - begun))
    return best
