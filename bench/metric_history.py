"""One metric's history of 100,000 points through the SDK, beside unpacking a packed file of them."""

import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.home import open_home
from bench.measuring import Measurement, at_most, interleaved, median, seconds_of, spread_of
from bench.peers.process import open_peers

POINTS, REPEATS = 100_000, 15
SCRIPT = f"""
from azureml.core import Run
run = Run.get_context()
for step in range({POINTS}):
    run.log("loss", step * 0.5)
"""


def measure() -> Iterator[Measurement]:
    wanted = {"mlflow": ("mlflow", "logging_mlflow.py", ["history"])}
    with (
        tempfile.TemporaryDirectory() as folder,
        open_peers(wanted, Path(folder) / "peers") as peers,
        open_home() as home,
    ):
        packed = Path(folder) / "packed"
        packed.write_bytes(struct.pack(f"<{POINTS}d", *(step * 0.5 for step in range(POINTS))))
        run = home.submit(home.config("history", SCRIPT))
        run.wait_for_completion()
        assert run.get_metrics(name="loss")["loss"] == list(struct.unpack(f"<{POINTS}d", packed.read_bytes()))
        subjects = {
            "floor": seconds_of(lambda: list(struct.unpack(f"<{POINTS}d", packed.read_bytes()))),
            "ours": seconds_of(lambda: run.get_metrics(name="loss")),
            **peers.running,
        }
        taken = interleaved(subjects, REPEATS, rarely=peers.running)
    others = {name: value and value * 1000 for name, value in peers.medians(taken).items()}
    value, floor, spread = median(taken["ours"]) * 1000, median(taken["floor"]) * 1000, spread_of(taken["ours"])
    bar = at_most(100, "ms")
    yield Measurement("history of 100k points", value, "ms", bar, floor, spread, others, peers.reasons)
