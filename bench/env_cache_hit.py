"""Finding an environment that is built: a virtual one from the disk alone, an image by asking the engine once."""

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.engine import has_engine, open_engine
from bench.measuring import Bar, Measurement, Subject, at_most, interleaved, median, seconds_of, spread_of
from runyard.core.records.launch_plan import EnvironmentSpec, ImageSpec
from runyard.environments.builder import LocalEnvironments

REPEATS = 200
REQUIREMENTS = ("iniconfig",)
PROCESS_EVENTS = frozenset({"subprocess.Popen", "os.posix_spawn", "os.fork", "os.exec", "os.system"})


def measure() -> Iterator[Measurement]:
    if not has_engine("env_cache_hit"):
        return
    started: list[str] = []
    with open_engine() as base, tempfile.TemporaryDirectory() as folder:
        specs = {
            "virtual environment": EnvironmentSpec(requirements=REQUIREMENTS),
            "image": EnvironmentSpec(requirements=REQUIREMENTS, image=ImageSpec(base=base)),
        }
        for spec in specs.values():
            LocalEnvironments(Path(folder), dict(os.environ)).ensure(spec, lambda line: None)
        sys.addaudithook(lambda event, _: started.append(event) if event in PROCESS_EVENTS else None)
        taken = interleaved({name: _found(Path(folder), spec) for name, spec in specs.items()}, REPEATS)
    bars = {
        "virtual environment": Bar("under 20 ms and no subprocess", lambda value, _: value < 20 and not started),
        "image": at_most(100, "ms"),
    }
    for name, bar in bars.items():
        yield Measurement(f"cache hit, {name}", median(taken[name]) * 1000, "ms", bar, spread=spread_of(taken[name]))


def _found(root: Path, spec: EnvironmentSpec) -> Subject:
    def find() -> None:
        # Another process of the same home has nothing in memory: a fresh object each time.
        assert LocalEnvironments(root, dict(os.environ)).find(spec), "it has been built"

    return seconds_of(find)
