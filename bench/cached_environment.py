"""Finding an environment that is built already: from the disk alone."""

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.measuring import Bar, Measurement, interleaved, median, seconds_of, spread_of
from runyard.environments.uv import UvEnvironments
from runyard.model.plan import EnvironmentSpec

REPEATS = 200
SPEC = EnvironmentSpec(requirements=("iniconfig",))
PROCESS_EVENTS = frozenset({"subprocess.Popen", "os.posix_spawn", "os.fork", "os.exec", "os.system"})


def measure() -> Iterator[Measurement]:
    started: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        environments = UvEnvironments(Path(folder), dict(os.environ))
        environments.ensure(SPEC, lambda line: None)
        # Another process of the same home has nothing in memory: a fresh object each time.
        find = seconds_of(lambda: UvEnvironments(Path(folder), dict(os.environ)).find(SPEC))
        sys.addaudithook(lambda event, _: started.append(event) if event in PROCESS_EVENTS else None)
        taken = interleaved({"ours": find}, REPEATS)["ours"]
    bar = Bar("under 20 ms and no subprocess", lambda value, _: value < 20 and not started)
    yield Measurement("cached environment", median(taken) * 1000, "ms", bar, spread=spread_of(taken))
