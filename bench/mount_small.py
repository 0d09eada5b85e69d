"""Ten thousand small files through a mount, read by 16 threads: cold from a web server, then a second time.

As training code does, the reader of files lists the folder first, which counts; obstore is told the names.
"""

import concurrent.futures
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.measuring import Bar, Measurement, median, spread_of
from bench.mounted import mounted, seen
from bench.nginx import serving

COUNT, SIZE, THREADS, REPEATS = 10_000, 25_000, 16, 3
HALF = Bar("at least 0.5 x floor", lambda rate, floor: rate >= 0.5 * floor)


def measure() -> Iterator[Measurement]:
    with tempfile.TemporaryDirectory(prefix="runyard-bench-") as folder, serving(Path(folder, "served")) as base:
        root = Path(folder)
        served = root / "served"
        served.mkdir(exist_ok=True)
        names = [f"{number}.bin" for number in range(COUNT)]
        for name in names:
            (served / name).write_bytes(os.urandom(SIZE))
        files = seen(base, names)
        rates: dict[str, list[float]] = {"cold": [], "again": [], "obstore": [], "local": []}
        for _ in range(REPEATS):
            shutil.rmtree(root / "cache", ignore_errors=True)
            rates["obstore"].append(_rate(lambda: names, _by_obstore(base)))
            with mounted(files, root / "cache") as point:
                rates["cold"].append(_rate(_listing(point), _by_files(point)))
                rates["again"].append(_rate(_listing(point), _by_files(point)))
            rates["local"].append(_rate(_listing(served), _by_files(served)))
    value = {name: median(taken) for name, taken in rates.items()}
    spread = {name: spread_of(taken) for name, taken in rates.items()}
    yield Measurement(
        "10,000 x 25 KB through a mount, cold", value["cold"], "files/s", HALF, value["obstore"], spread["cold"]
    )
    yield Measurement(
        "10,000 x 25 KB through a mount, again", value["again"], "files/s", HALF, value["local"], spread["again"]
    )


def _rate(names: Callable[[], list[str]], read: Callable[[str], bytes]) -> float:
    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        begun = time.perf_counter()
        sizes = pool.map(lambda name: len(read(name)), names())
        assert sum(sizes) == COUNT * SIZE
        return COUNT / (time.perf_counter() - begun)


def _listing(folder: Path) -> Callable[[], list[str]]:
    return lambda: sorted(os.listdir(folder))


def _by_files(folder: Path) -> Callable[[str], bytes]:
    """With the least that a reader of files does: the rest would be its own time, not the mount's."""

    def read(name: str) -> bytes:
        file = os.open(f"{folder}/{name}", os.O_RDONLY)
        try:
            return os.read(file, SIZE + 1)
        finally:
            os.close(file)

    return read


def _by_obstore(base: str) -> Callable[[str], bytes]:
    import obstore
    from obstore.store import HTTPStore

    store = HTTPStore.from_url(base, client_options={"allow_http": True})
    return lambda name: obstore.get(store, name).bytes()
