"""A hundred runs over a Ray cluster of four nodes, beside a hundred tasks that start the same process."""

import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bench.home import Home
from bench.measuring import Measurement, interleaved, median, spread_of, times_floor
from bench.ray_cluster import NAME, has_ray, warm_cluster

NODES, RUNS, REPEATS, SUBMITTERS = 4, 100, 3, 2
SCRIPT = "import time\ntime.sleep(1)\n"


def measure() -> Iterator[Measurement]:
    if not has_ray("ray_throughput"):
        return
    with warm_cluster(NODES, cpus=1) as (home, bare):
        config = home.config("ray-throughput", SCRIPT)
        config.run_config.target = NAME
        script = home.root / "script.py"
        script.write_text(SCRIPT, encoding="utf-8")
        bare.ask(tasks=NODES, command=[sys.executable, str(script)])
        _all(home, config, NODES)
        subjects = {
            "floor": lambda: bare.ask(tasks=RUNS, command=[sys.executable, str(script)]),
            "ours": lambda: _all(home, config, RUNS),
        }
        taken = interleaved(subjects, REPEATS, warm_up=0)
    value, floor, spread = median(taken["ours"]), median(taken["floor"]), spread_of(taken["ours"])
    yield Measurement("100 runs of 1 s over 4 Ray nodes", value, "s", times_floor(1.3), floor, spread)


def _all(home: Home, config: Any, count: int) -> float:
    begun = time.perf_counter()
    with ThreadPoolExecutor(SUBMITTERS) as pool:
        for run in list(pool.map(lambda _: home.submit(config), range(count))):
            run.wait_for_completion()
    return time.perf_counter() - begun
