"""Tiny runs, two at a time: runs a second."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.home import open_home
from bench.measuring import Bar, Measurement, Subject, interleaved, median, spread_of
from bench.peers.process import open_peers

RUNS, AT_A_TIME, REPEATS = 50, 2, 5
PEERS = {
    "mlflow.projects.run": ("mlflow", "mlflow_project.py", ["api", "20"]),
    "metaflow": ("metaflow", "metaflow_run.py", ["4"]),
    "ray jobs": ("ray", "ray_jobs.py", ["4"]),
}


def measure() -> Iterator[Measurement]:
    with (
        tempfile.TemporaryDirectory() as folder,
        open_peers(PEERS, Path(folder) / "peers") as peers,
        open_home() as home,
    ):
        script = Path(folder) / "script.py"
        script.write_text("", encoding="utf-8")
        config = home.config("tiny", "")
        bare = _rate(lambda: subprocess.run([sys.executable, str(script)], check=True))
        ours = _rate(lambda: home.submit(config).wait_for_completion())
        taken = interleaved({"floor": bare, "ours": ours, **peers.running}, REPEATS, rarely=peers.running, rare=2)
    others = peers.medians(taken)
    best = max((rate for rate in others.values() if rate is not None), default=0.0)
    bar = Bar(f"ahead of every peer ({best:.3g} runs/s)", lambda value, _: value > best)
    rate, floor, spread = median(taken["ours"]), median(taken["floor"]), spread_of(taken["ours"])
    yield Measurement("50 tiny runs, 2 at a time", rate, "runs/s", bar, floor, spread, others, peers.reasons)


def _rate(run_one: Callable[[], object]) -> Subject:
    def subject() -> float:
        begun = time.perf_counter()
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            for done in [pool.submit(run_one) for _ in range(RUNS)]:
                done.result()
        return RUNS / (time.perf_counter() - begun)

    return subject
