"""What run.log() costs the script that calls it, 100,000 times, beside formatting and writing one line a point."""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.home import open_home
from bench.measuring import Measurement, at_most, median, spread_of, times_floor
from bench.peers.process import open_peers

REPEATS = 5
# Blocks of 1,000 calls of either kind take turns inside one process.
SCRIPT = """
import json, os, sys, time
from azureml.core import Run
run = Run.get_context()
plain = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
clock = time.perf_counter_ns
ours, floor = [], []
for block in range(101):
    for step in range(1000):
        begun = clock()
        run.log("loss", 0.25)
        ended = clock()
        if block:
            ours.append(ended - begun)
    for step in range(1000):
        begun = clock()
        os.write(plain, ('["m","loss",%r,null,%.6f]\\n' % (0.25, time.time())).encode("ascii"))
        ended = clock()
        if block:
            floor.append(ended - begun)
ours.sort(); floor.sort()
json.dump({"p50": ours[50000] / 1000, "p99": ours[99000] / 1000, "floor": floor[50000] / 1000}, open(sys.argv[1], "w"))
"""
PEERS = {
    "tensorboard writer": ("tensorboard", "logging_tensorboard.py", ["call"]),
    "aim": ("aim", "logging_aim.py", ["call"]),
    "wandb offline": ("wandb", "logging_wandb.py", ["call"]),
    "mlflow": ("mlflow", "logging_mlflow.py", ["call"]),
    "sacred": ("sacred", "logging_sacred.py", ["call"]),
}


def measure() -> Iterator[Measurement]:
    taken: dict[str, list[float]] = {"p50": [], "p99": [], "floor": []}
    with (
        tempfile.TemporaryDirectory() as folder,
        open_peers(PEERS, Path(folder) / "peers") as peers,
        open_home() as home,
    ):
        answer = Path(folder) / "answer.json"
        config = home.config("log", SCRIPT, answer, Path(folder) / "plain")
        for turn in range(REPEATS):
            home.submit(config).wait_for_completion()
            for name, value in json.loads(answer.read_text(encoding="utf-8")).items():
                taken[name].append(value)
            for label, process in peers.running.items():
                if turn < 3:
                    taken.setdefault(label, []).append(process())
    others = peers.medians(taken)
    floor, spread = median(taken["floor"]), spread_of(taken["p50"])
    p50, p99 = median(taken["p50"]), median(taken["p99"])
    yield Measurement("run.log call, p50", p50, "us", times_floor(3), floor, spread, others, peers.reasons)
    yield Measurement("run.log call, p99", p99, "us", at_most(20, "us"), spread=spread_of(taken["p99"]))
