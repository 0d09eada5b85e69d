"""Four ranks over MPI on four nodes of this machine: until all have printed, and from the last one's end on."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

from azureml.core import ScriptRunConfig
from bench.by_hand import mpirun
from bench.cluster import make_cluster, over_mpi, rank_logs
from bench.home import Home, open_home
from bench.measuring import Measurement, above_floor, at_most, interleaved, median, spread_of

NODES, REPEATS = 4, 11
# Whole lines: mpirun mixes what its ranks write.
SCRIPT = "import os, time\nfor word in ('first', 'last'):\n    os.write(1, f'{word} {time.time()}\\n'.encode())\n"


def measure() -> Iterator[Measurement]:
    with open_home() as home:
        make_cluster(home, NODES)
        config = over_mpi(home.config("gang", SCRIPT), NODES)
        ends: list[float] = []
        script = home.root / "script.py"
        script.write_text(SCRIPT, encoding="utf-8")
        subjects = {"floor": lambda: by_hand(script, home.root), "ours": lambda: as_run(home, config, NODES, ends)}
        taken = interleaved(subjects, REPEATS)
    value, floor, spread = median(taken["ours"]), median(taken["floor"]), spread_of(taken["ours"])
    name = "submit to the first lines of 4 ranks on 4 nodes"
    yield Measurement(name, value, "ms", above_floor(700, "ms"), floor, spread)
    yield Measurement("last rank's end to Completed", median(ends), "ms", at_most(500, "ms"), spread=spread_of(ends))


def by_hand(script: Path, folder: Path) -> float:
    begun = time.time()
    printed = mpirun([sys.executable, str(script)], nodes=NODES, folder=folder)
    return (latest("first", [printed]) - begun) * 1000


def as_run(home: Home, config: ScriptRunConfig, ranks: int, ends: list[float]) -> float:
    """Milliseconds until the last rank has printed; those from its end to Completed are added to `ends`."""
    begun = time.time()
    run = home.submit(config)
    run.wait_for_completion()
    ended = time.time()
    printed = rank_logs(run, ranks)
    ends.append((ended - latest("last", printed)) * 1000)
    return (latest("first", printed) - begun) * 1000


def latest(word: str, printed: list[str]) -> float:
    lines = [line.split() for output in printed for line in output.splitlines()]
    return max(float(words[1]) for words in lines if words[:1] == [word])
