"""From the first log() until get_metrics() gives all 100,000 points, and until it gives a single one."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.home import Home, open_home
from bench.measuring import Measurement, at_least, at_most, median, percentile, spread_of
from bench.peers.process import open_peers

POINTS, REPEATS, SINGLE_POINTS = 100_000, 5, 40
MANY = f"""
import sys, time
from azureml.core import Run
run = Run.get_context()
open(sys.argv[1], "w").write(repr(time.time()))
for step in range({POINTS}):
    run.log("loss", 0.25)
"""
ONE_BY_ONE = """
import sys, time
from azureml.core import Run
run = Run.get_context()
for _ in range(int(sys.argv[1])):
    run.log("sent_at", time.time())
    time.sleep(0.1)
"""
PEERS = {
    "sacred": ("sacred", "logging_sacred.py", ["readable"]),
    "tensorboard": ("tensorboard", "logging_tensorboard.py", ["readable"]),
    "mlflow batches": ("mlflow", "logging_mlflow.py", ["readable"]),
}


def measure() -> Iterator[Measurement]:
    with (
        tempfile.TemporaryDirectory() as folder,
        open_peers(PEERS, Path(folder) / "peers") as peers,
        open_home() as home,
    ):
        begun_at = Path(folder) / "begun-at"
        config = home.config("many", MANY, begun_at)
        taken: dict[str, list[float]] = {"ours": [], **{label: [] for label in peers.running}}
        for _ in range(REPEATS):
            taken["ours"].append(POINTS / _seconds_until_all_are_there(home, config, begun_at))
            for label, process in peers.running.items():
                taken[label].append(process())
        lags = _lags(home)
    rate, spread, others = median(taken["ours"]), spread_of(taken["ours"]), peers.medians(taken)
    bar = at_least(110_000, "points/s")
    yield Measurement("100k points readable", rate, "points/s", bar, None, spread, others, peers.reasons)
    lag = percentile(lags, 95)
    yield Measurement("a point readable, p95", lag, "ms", at_most(150, "ms"), spread=spread_of(lags))


def _seconds_until_all_are_there(home: Home, config: object, begun_at: Path) -> float:
    run = home.submit(config)
    while True:
        found = run.get_metrics(name="loss").get("loss", [])
        if isinstance(found, list) and len(found) == POINTS:
            seconds = time.time() - float(begun_at.read_text(encoding="utf-8"))
            run.wait_for_completion()
            return seconds


def _lags(home: Home) -> list[float]:
    """Each point is its own time of sending; a reader that asks without pause sees when it first comes back."""
    run = home.submit(home.config("single", ONE_BY_ONE, SINGLE_POINTS))
    lags: list[float] = []
    while len(lags) < SINGLE_POINTS:
        found = run.get_metrics(name="sent_at").get("sent_at", [])
        now = time.time()
        points = found if isinstance(found, list) else [found]
        lags += [(now - sent_at) * 1000 for sent_at in points[len(lags) :]]
    run.wait_for_completion()
    return lags
