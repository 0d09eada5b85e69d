"""From submit() on a warm service to the script's first line in the follower's hands."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.following import follow
from bench.home import Home, open_home
from bench.measuring import Measurement, Subject, above_floor, interleaved, median, percentile, spread_of
from bench.peers.process import open_peers

REPEATS = 40
SCRIPT = "print('first line', flush=True)\n"
PEERS = {
    "mlflow.projects.run": ("mlflow", "mlflow_project.py", ["api"]),
    "mlflow run": ("mlflow", "mlflow_project.py", ["command"]),
    "metaflow": ("metaflow", "metaflow_run.py", []),
    "ray jobs": ("ray", "ray_jobs.py", []),
}


def measure() -> Iterator[Measurement]:
    with (
        tempfile.TemporaryDirectory() as folder,
        open_peers(PEERS, Path(folder) / "peers") as peers,
        open_home() as home,
    ):
        script = Path(folder) / "script.py"
        script.write_text(SCRIPT, encoding="utf-8")
        subjects = {"floor": _bare(script), "ours": _submitted(home), **peers.running}
        taken = interleaved(subjects, REPEATS, warm_up=2, rarely=peers.running, rare=8)
        floor = median(taken["floor"]) * 1000
        seen = {name: value and value * 1000 for name, value in peers.medians(taken).items()}
        ours = [seconds * 1000 for seconds in taken["ours"]]
        for name, value, margin in (("p50", median(ours), 60), ("p95", percentile(ours, 95), 200)):
            bar = above_floor(margin, "ms")
            spread = spread_of(ours)
            yield Measurement(f"submit to first line, {name}", value, "ms", bar, floor, spread, seen, peers.reasons)


def _bare(script: Path) -> Subject:
    def subject() -> float:
        begun = time.perf_counter()
        with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE) as process:
            assert process.stdout
            process.stdout.readline()
            return time.perf_counter() - begun

    return subject


def _submitted(home: Home) -> Subject:
    config = home.config("first-line", SCRIPT)

    def subject() -> float:
        begun = time.time()
        lines = follow(home.submit(config))
        return next(seen for line, seen in lines if line == "first line") - begun

    return subject
